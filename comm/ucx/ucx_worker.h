// A UCX context and its workers, set up for a transport: active messages, wake-up, failures reported.
//
// A transport has a worker for each lane. Two endpoints of one worker would do for shared memory, but over
// tcp UCX 1.13 may send one side's control frames through the connection of the other side's bulk endpoint,
// where they wait for gigabytes. Threads: one at a time (the opener's, then the progress thread's). Owns:
// context, worker; every endpoint must be closed before. Errors: open: kUnavailable with UCX's words;
// kFailedPrecondition where no transport can carry our headers.
#pragma once

#include <ucp/api/ucp.h>

#include <memory>
#include <string>

#include "runtime/base/status.h"

namespace troupe::comm {

class UcxContext {
 public:
  // one_machine: UCX listens at the loopback interface alone, unless UCX_NET_DEVICES says otherwise.
  static StatusOr<std::shared_ptr<UcxContext>> open(bool one_machine);
  ~UcxContext();
  UcxContext(const UcxContext&) = delete;
  UcxContext& operator=(const UcxContext&) = delete;
  ucp_context_h get() const { return context_; }

 private:
  UcxContext() = default;
  ucp_context_h context_ = nullptr;
};

class UcxWorker {
 public:
  static StatusOr<std::unique_ptr<UcxWorker>> open(std::shared_ptr<UcxContext> context);
  ~UcxWorker();
  UcxWorker(const UcxWorker&) = delete;
  UcxWorker& operator=(const UcxWorker&) = delete;

  ucp_worker_h get() const { return worker_; }
  const std::string& address() const { return address_; }
  int event_fd() const { return event_fd_; }

  Status on_message(unsigned id, ucp_am_recv_callback_t callback, void* argument);
  // on_error is called during progress, once, when the peer is found to be gone; then only close_by_force()
  // is allowed.
  StatusOr<ucp_ep_h> connect(const std::string& address, ucp_err_handler_cb_t on_error, void* argument);
  // What is open on it completes with an error. Returns a request to wait for, or nullptr.
  ucs_status_ptr_t close_by_force(ucp_ep_h endpoint);
  bool progress() { return ucp_worker_progress(worker_) != 0; }
  // False: there is more to progress.
  bool arm() { return ucp_worker_arm(worker_) == UCS_OK; }

 private:
  UcxWorker() = default;
  Status set_up();

  std::shared_ptr<UcxContext> context_;
  ucp_worker_h worker_ = nullptr;
  std::string address_;
  int event_fd_ = -1;
};

}  // namespace troupe::comm
