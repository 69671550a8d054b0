#include "runtime/actor/request.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "runtime/actor/system_core.h"

namespace troupe::actor::detail {

RequestTracker::RequestTracker(Ref asker, Ref target, PostError post_error)
    : asker_(std::move(asker)),
      target_(std::move(target)),
      post_error_(post_error),
      id_(asker_.cell().next_request++) {}

void RequestTracker::fail_if_open(const std::string& why) {
  if (!claim()) return;
  const Cell& target = target_.cell();
  if (target.ended.load(std::memory_order_acquire)) {
    post_error_(*this, Status(absl::StatusCode::kUnavailable,
                              absl::StrCat("actor '", target.name(),
                                           "' ended before it answered: ", target.cause.ToString())));
  } else {
    post_error_(*this,
                Status(absl::StatusCode::kAborted, absl::StrCat("actor '", target.name(), "': ", why)));
  }
}

void RequestTracker::track(Actor& target, const std::shared_ptr<RequestTracker>& tracker) {
  auto& open = target.cell_->open_requests;
  if (open.size() == open.capacity()) {  // at each doubling, forget what was answered
    std::erase_if(open, [](const auto& each) { return each->answered(); });
    open.reserve(std::max<std::size_t>(16, 2 * open.size()));
  }
  open.push_back(tracker);
}

}  // namespace troupe::actor::detail
