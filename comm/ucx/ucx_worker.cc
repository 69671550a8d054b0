#include "comm/ucx/ucx_worker.h"

#include <ucs/debug/debug.h>
#include <ucs/debug/log_def.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "comm/transport.h"
#include "comm/ucx/loopback.h"
#include "comm/ucx/wire.h"
#include "runtime/base/log.h"

namespace troupe::comm {
namespace {

struct Setting {
  const char *name, *value;
};
constexpr std::array kSettings{
    Setting{"MM_ERROR_HANDLING",
            "y"},  // else shared memory silently gives way to tcp where failures are to be reported
    Setting{"KEEPALIVE_INTERVAL", "1s"},  // how soon a killed process is noticed over shared memory
    // Where failures are to be reported UCX does not receive straight into place over tcp: it copies out of
    // segments. Those of 64 KiB (its default) are two thirds as fast as one for a whole piece.
    Setting{"TCP_RX_SEG_SIZE", "528K"},
};

// UCX 1.13 reads these from the environment alone.
constexpr std::array kVariables{
    // Else a bulk is copied through the shared memory queue where failures are to be reported, by both sides' cores: half as fast as one
    // copy by the receiver, and with busy cores (they compute) slower by far.
    Setting{"UCX_CMA_MEMORY_INVALIDATE", "y"},
    // Else the progress thread, and with it all heartbeats, stands still while it connects to a host that is gone.
    Setting{"UCX_TCP_CONN_NB", "y"},
};

Status checked(ucs_status_t status, const char* what) {
  if (status == UCS_OK) return ok();
  return absl::UnavailableError(absl::StrCat("UCX could not ", what, ": ", ucs_status_string(status)));
}

// "unused env variable: ...", where what would read it is not in use. Of others' variables people shall hear.
bool says_ours_are_unused(std::string text) {
  if (!text.starts_with("unused env variable")) return false;
  for (const Setting& variable : kVariables) text = absl::StrReplaceAll(text, {{variable.name, ""}});
  return absl::StrReplaceAll(text, {{"UCX_WARN_UNUSED_ENV_VARS", ""}}).find("UCX_") == std::string::npos;
}

// UCX would write to stdout, where results go. What is an error to it, a peer that is gone, is none to us.
ucs_log_func_rc_t log_for_ucx(const char*, unsigned, const char*, ucs_log_level_t level,
                              const ucs_log_component_config_t*, const char* format, va_list arguments) {
  std::array<char, 1024> text{};
  std::vsnprintf(text.data(), text.size(), format, arguments);
  // Where no shared memory, or no tcp, is in use its setting has no reader, and UCX complains.
  const bool no_reader = std::any_of(kSettings.begin(), kSettings.end(), [&](const Setting& setting) {
    return std::strstr(text.data(), setting.name) != nullptr;
  });
  if (no_reader || says_ours_are_unused(text.data())) return UCS_LOG_FUNC_RC_STOP;
  // A peer that has just ended takes its shared memory along; that it is down is reported as that.
  const bool peer_ended = std::strstr(text.data(), "remote FIFO") != nullptr || std::strstr(text.data(), "open(file_name=/proc/") != nullptr ||
                          std::strstr(text.data(), "shmat(") != nullptr;
  log(level <= UCS_LOG_LEVEL_WARN && !peer_ended ? LogLevel::kWarning : LogLevel::kDebug, absl::StrCat("UCX: ", text.data()));
  return UCS_LOG_FUNC_RC_STOP;
}

// Once a process. UCX takes fatal signals when it is loaded, prints its own report and may wait for input:
// what the process did with them before holds again.
void tame_ucx() {
  static const bool tamed = [] {
    for (const int signal : {SIGILL, SIGSEGV, SIGBUS, SIGFPE}) {
      struct sigaction now {};
      if (sigaction(signal, nullptr, &now) == 0 && now.sa_handler != SIG_DFL)
        ucs_debug_disable_signal(signal);
    }
    ucs_log_push_handler(&log_for_ucx);
    for (const Setting& variable : kVariables) setenv(variable.name, variable.value, /*overwrite=*/0);
    return true;
  }();
  static_cast<void>(tamed);
}

}  // namespace

StatusOr<std::shared_ptr<UcxContext>> UcxContext::open(bool one_machine) {
  tame_ucx();
  ucp_config_t* config = nullptr;
  TROUPE_RETURN_IF_ERROR(checked(ucp_config_read(nullptr, nullptr, &config), "read its settings"));
  // System V's segments would outlive a process that is killed while it makes them; POSIX's lie in a folder that the launcher clears.
  if (std::getenv("UCX_TLS") == nullptr) ucp_config_modify(config, "TLS", "^sysv");
  for (const Setting& setting : kSettings) {
    if (std::getenv(absl::StrCat("UCX_", setting.name).c_str()) != nullptr) continue;  // the user knows better
    if (Status set = checked(ucp_config_modify(config, setting.name, setting.value), setting.name);
        !set.ok()) {
      ucp_config_release(config);
      return set;
    }
  }
  if (const std::string loopback = loopback_device();
      one_machine && !loopback.empty() && std::getenv("UCX_NET_DEVICES") == nullptr) {
    ucp_config_modify(config, "NET_DEVICES", loopback.c_str());
  }
  ucp_params_t params{};
  params.field_mask = UCP_PARAM_FIELD_FEATURES;
  params.features = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP;
  std::shared_ptr<UcxContext> context(new UcxContext);
  const ucs_status_t made = ucp_init(&params, config, &context->context_);
  ucp_config_release(config);
  TROUPE_RETURN_IF_ERROR(checked(made, "start"));
  return context;
}

UcxContext::~UcxContext() {
  if (context_ != nullptr) ucp_cleanup(context_);
}

StatusOr<std::unique_ptr<UcxWorker>> UcxWorker::open(std::shared_ptr<UcxContext> context) {
  std::unique_ptr<UcxWorker> worker(new UcxWorker);
  worker->context_ = std::move(context);
  TROUPE_RETURN_IF_ERROR(worker->set_up());
  return worker;
}

Status UcxWorker::set_up() {
  ucp_worker_params_t worker_params{};
  worker_params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
  worker_params.thread_mode = UCS_THREAD_MODE_SERIALIZED;  // opened by one thread, used by another afterwards
  TROUPE_RETURN_IF_ERROR(
      checked(ucp_worker_create(context_->get(), &worker_params, &worker_), "create a worker"));
  ucp_worker_attr_t attributes{};
  attributes.field_mask = UCP_WORKER_ATTR_FIELD_MAX_AM_HEADER;
  TROUPE_RETURN_IF_ERROR(checked(ucp_worker_query(worker_, &attributes), "describe its worker"));
  if (attributes.max_am_header < kWireBytes + kHeaderBytesMost) {
    return absl::FailedPreconditionError(
        absl::StrCat("UCX's transports carry headers of ", attributes.max_am_header, " bytes, ",
                     kWireBytes + kHeaderBytesMost, " are needed: allow another with UCX_TLS"));
  }
  TROUPE_RETURN_IF_ERROR(checked(ucp_worker_get_efd(worker_, &event_fd_), "wake up its worker"));
  ucp_address_t* address = nullptr;
  std::size_t address_bytes = 0;
  TROUPE_RETURN_IF_ERROR(
      checked(ucp_worker_get_address(worker_, &address, &address_bytes), "tell its address"));
  address_.assign(reinterpret_cast<const char*>(address), address_bytes);
  ucp_worker_release_address(worker_, address);
  return ok();
}

UcxWorker::~UcxWorker() {
  if (worker_ != nullptr) ucp_worker_destroy(worker_);
}

Status UcxWorker::on_message(unsigned id, ucp_am_recv_callback_t callback, void* argument) {
  ucp_am_handler_param_t params{};
  params.field_mask =
      UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB | UCP_AM_HANDLER_PARAM_FIELD_ARG;
  params.id = id;
  params.cb = callback;
  params.arg = argument;
  return checked(ucp_worker_set_am_recv_handler(worker_, &params), "take a message handler");
}

StatusOr<ucp_ep_h> UcxWorker::connect(const std::string& address, ucp_err_handler_cb_t on_error,
                                      void* argument) {
  ucp_ep_params_t params{};
  params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                      UCP_EP_PARAM_FIELD_ERR_HANDLER;
  params.address = reinterpret_cast<const ucp_address_t*>(address.data());
  params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
  params.err_handler.cb = on_error;
  params.err_handler.arg = argument;
  ucp_ep_h endpoint = nullptr;
  TROUPE_RETURN_IF_ERROR(checked(ucp_ep_create(worker_, &params, &endpoint), "connect"));
  return endpoint;
}

ucs_status_ptr_t UcxWorker::close_by_force(ucp_ep_h endpoint) {
  ucp_request_param_t params{};
  params.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
  params.flags = UCP_EP_CLOSE_FLAG_FORCE;
  const ucs_status_ptr_t request = ucp_ep_close_nbx(endpoint, &params);
  return UCS_PTR_IS_PTR(request) ? request : nullptr;
}

}  // namespace troupe::comm
