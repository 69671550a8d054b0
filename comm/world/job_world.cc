#include "comm/world/job_world.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <cerrno>

#include "absl/strings/str_cat.h"
#include "comm/machine.h"
#include "comm/ucx/ucx_transport.h"
#include "runtime/base/check.h"
#include "runtime/base/first_cause.h"
#include "runtime/base/log.h"

namespace troupe::comm {
namespace {

constexpr auto kLeaveDeadline = std::chrono::seconds(10);

std::chrono::nanoseconds seconds(double s) { return std::chrono::nanoseconds(static_cast<std::int64_t>(s * 1e9)); }

}  // namespace

StatusOr<std::unique_ptr<JobWorld>> JobWorld::of_this_process() {
  TROUPE_ASSIGN_OR_RETURN(auto place, find_place(process_environment()));
  return std::unique_ptr<JobWorld>(new JobWorld(std::move(place)));
}

JobWorld::~JobWorld() {
  end_watch();
  for (auto& transport : owned_) transport->stop();
}

Status JobWorld::enter(const Entry& entry) {
  if (place_.world == 1) {
    if (entry.ranks == 1) return ok();
    hub_ = std::make_unique<LocalHub>(entry.ranks);
    for (int rank = 0; rank < entry.ranks; ++rank) owned_.push_back(hub_->transport(Rank(rank)));
  } else {
    TROUPE_CHECK(entry.ranks == place_.world) << "a plan for " << entry.ranks << " processes in a job of " << place_.world;
    const auto heartbeat = seconds(entry.heartbeat_timeout_s);
    TROUPE_ASSIGN_OR_RETURN(auto transport, UcxTransport::open({.rank = place_.rank,
                                                                .world = place_.world,
                                                                .job = XXH3_64bits(place_.secret.data(), place_.secret.size()),
                                                                .one_machine = place_.local_world == place_.world,
                                                                .heartbeat_timeout = heartbeat,
                                                                .first_contact_timeout = heartbeat}));
    auto joined = join(place_, with_machine(transport->address()), after(seconds(entry.join_timeout_s)), entry.cancel);
    if (absl::IsDeadlineExceeded(joined.status())) {
      return absl::DeadlineExceededError(absl::StrCat(joined.status().message(), "; job.join_timeout_s = ", entry.join_timeout_s,
                                                      " can be raised where ranks start later than that"));
    }
    TROUPE_RETURN_IF_ERROR(joined.status());
    auto machines = split_machines(joined->addresses());
    transport->set_peers(machines.addresses);
    transport->be_reachable();  // what we do until it starts may take longer than a heartbeat
    node_of_ = std::move(machines.node_of);
    joined_.emplace(*std::move(joined));
    owned_.push_back(std::move(transport));
    const int nodes = 1 + *std::max_element(node_of_.begin(), node_of_.end());
    if (leads()) log_info(absl::StrCat(place_.world, " processes on ", nodes, nodes == 1 ? " machine" : " machines", ", found by ", place_.found_in));
  }
  for (const auto& transport : owned_) transports_.push_back(transport.get());
  return ok();
}

void JobWorld::watch(std::function<void(Rank, const Status& cause)> lost) {
  if (!joined_) return;
  end_watch_ = eventfd(0, EFD_CLOEXEC);
  TROUPE_CHECK(end_watch_ >= 0) << "eventfd";
  watch_ = std::thread([this, lost = std::move(lost)] {
    StoreClient& store = *joined_->store();
    while (true) {
      // First: the end may have come along with the addresses, and then nothing is left to wake the poll.
      const Status status = store.check();
      if (status.ok()) {
        pollfd ready[] = {{store.descriptor(), POLLIN, 0}, {end_watch_, POLLIN, 0}};
        if (poll(ready, 2, -1) < 0 && errno != EINTR) return;
        if (ready[1].revents) return;
        continue;
      }
      const Rank rank = store.cause() ? store.cause()->rank : Rank(-1);  // without a cause it is the store that is gone
      lost(rank, due_to(rank, std::string(status.message())));
      return;
    }
  });
}

void JobWorld::end_watch() {
  if (!watch_.joinable()) return;
  const std::uint64_t one = 1;
  TROUPE_CHECK(write(end_watch_, &one, sizeof one) == sizeof one) << "eventfd";
  watch_.join();
  close(end_watch_);
}

void JobWorld::give_up(const Status& why) {
  if (joined_) (void)joined_->abort(why);
}

Status JobWorld::leave(const Status& outcome) {
  end_watch();
  for (auto& transport : owned_) {
    transport->stop(outcome);
    if (const auto refused = transport->counters().refused; refused > 0)
      log_warning(absl::StrCat("rank ", transport->rank().value, " refused ", refused, refused == 1 ? " frame" : " frames", " in all"));
  }
  if (!joined_) return ok();
  if (!outcome.ok()) return joined_->abort(outcome);
  return joined_->leave(after(kLeaveDeadline));
}

}  // namespace troupe::comm
