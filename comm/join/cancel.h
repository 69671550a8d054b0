// Ends another thread's waits for the job to meet (store.h, join.h), with the reason.
//
// Threads: any. Lives longer than what was told of it.
#pragma once

#include <mutex>
#include <string>

#include "runtime/base/status.h"

namespace troupe::comm {

class Cancel {
 public:
  Cancel();
  ~Cancel();
  Cancel(const Cancel&) = delete;
  Cancel& operator=(const Cancel&) = delete;

  // The first reason counts.
  void request(const std::string& why);
  // kCancelled with the reason; ok while nobody has requested it.
  Status status() const;
  // Readable once it is requested.
  int descriptor() const { return fd_; }

 private:
  const int fd_;  // an eventfd
  mutable std::mutex mutex_;
  Status status_;
};

}  // namespace troupe::comm
