#include "comm/join/cancel.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cstdint>

#include "runtime/base/check.h"

namespace troupe::comm {

Cancel::Cancel() : fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) { TROUPE_CHECK(fd_ >= 0) << "eventfd"; }
Cancel::~Cancel() { close(fd_); }

void Cancel::request(const std::string& why) {
  const std::lock_guard lock(mutex_);
  if (!status_.ok()) return;
  status_ = absl::CancelledError(why);
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(fd_, &one, sizeof one);
}

Status Cancel::status() const {
  const std::lock_guard lock(mutex_);
  return status_;
}

}  // namespace troupe::comm
