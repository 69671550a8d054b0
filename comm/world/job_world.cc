#include "comm/world/job_world.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <map>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "comm/join/secret.h"
#include "comm/machine.h"
#include "comm/ucx/ucx_transport.h"
#include "runtime/base/check.h"
#include "runtime/base/first_cause.h"
#include "runtime/base/log.h"

namespace troupe::comm {
namespace {

constexpr auto kLeaveDeadline = std::chrono::seconds(10);
constexpr auto kLookAtNextEvery = std::chrono::milliseconds(500);  // while ranks wait for each other before their transports start
constexpr std::size_t kRanksNamedMost = 8;
constexpr std::size_t kJobIdBytes = 4;

std::string this_host() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "?";
}

// What ranks have against going on, as each of them put it into the store: its number, its host, a line end, why.
class Refusals {
 public:
  static std::string written(Rank rank, const Status& why) { return absl::StrCat(rank.value, " on ", this_host(), "\n", std::string(why.message())); }

  void add(const std::string& refusal) {
    const std::pair<std::string, std::string> who_why = absl::StrSplit(refusal, absl::MaxSplits('\n', 1));
    int rank = -1;
    (void)absl::SimpleAtoi(who_why.first.substr(0, who_why.first.find(' ')), &rank);
    by_reason_[who_why.second][rank] = absl::StrCat("rank ", who_why.first);
    if (first_.value < 0 || rank < first_.value) first_ = Rank{rank};
  }
  Rank first() const { return first_; }
  std::string text() const {
    return absl::StrJoin(by_reason_, "; ", [](std::string* out, const auto& reason) {
      const auto& [why, ranks] = reason;
      std::vector<std::string> named;
      for (const auto& [rank, name] : ranks) named.push_back(name);
      const std::size_t more = named.size() - std::min(named.size(), kRanksNamedMost);
      named.resize(named.size() - more);
      absl::StrAppend(out, absl::StrJoin(named, ", "), more > 0 ? absl::StrCat(" and ", more, " more") : "", ": ", why);
    });
  }

 private:
  std::map<std::string, std::map<int, std::string>> by_reason_;
  Rank first_{-1};
};

std::chrono::nanoseconds seconds(double s) { return std::chrono::nanoseconds(static_cast<std::int64_t>(s * 1e9)); }

}  // namespace

JobWorld::JobWorld(Place place)
    : place_(std::move(place)), job_id_(absl::BytesToHexString(place_.world > 1 ? proof_of(place_.secret, "job id").substr(0, kJobIdBytes) : random_bytes(kJobIdBytes))) {}

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
    inspection_key_ = random_bytes(kNonceBytes);
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
    ucx_ = transport.get();
    owned_.push_back(std::move(transport));
    // From the secret, which may be guessed where a launcher has none (STORE.md), and what the leader draws, which goes over the network.
    TROUPE_ASSIGN_OR_RETURN(const std::string drawn, from_leader("inspection", leads() ? make_secret() : ""));
    inspection_key_ = proof_of(place_.secret, absl::StrCat("inspection ", drawn));
    const int nodes = 1 + *std::max_element(node_of_.begin(), node_of_.end());
    if (leads()) log_info(absl::StrCat(place_.world, " processes on ", nodes, nodes == 1 ? " machine" : " machines", ", found by ", place_.found_in));
  }
  for (const auto& transport : owned_) transports_.push_back(transport.get());
  return ok();
}

// In short waits: who has gone is known to the store, who has stopped to the rank before it alone.
StatusOr<std::string> JobWorld::hear(const std::string& key) {
  while (true) {
    auto value = joined_->store()->get(key, after(kLookAtNextEvery));
    if (!absl::IsDeadlineExceeded(value.status())) return value;
    TROUPE_RETURN_IF_ERROR(ucx_->check_next());
  }
}

StatusOr<std::string> JobWorld::from_leader(const std::string& what, const std::string& mine) {
  if (!joined_) return mine;
  const std::lock_guard lock(calls_);
  StoreClient& store = *joined_->store();
  const StatusOr<std::string> said = leads() ? StatusOr<std::string>(mine) : hear(what);
  const Status status = leads() ? store.set(what, mine) : said.status();
  if (store.cause()) return due_to(store.cause()->rank, store.cause()->reason);
  TROUPE_RETURN_IF_ERROR(status);
  return said;
}

Status JobWorld::all_ok(const std::string& what, const Status& here) {
  if (!joined_) return here;
  const std::lock_guard lock(calls_);
  const Status status = meet(what, here);
  const auto& cause = joined_->store()->cause();
  return cause ? due_to(cause->rank, cause->reason) : status;
}

// A counter of those that have come, and the last one says so: at a barrier of the store's all would have to wait at once.
Status JobWorld::meet(const std::string& what, const Status& here) {
  StoreClient& store = *joined_->store();
  const std::string refused = what + " refused", all_here = what + " all here";
  if (!here.ok()) {
    TROUPE_ASSIGN_OR_RETURN(const std::int64_t number, store.add(refused, 1));
    TROUPE_RETURN_IF_ERROR(store.set(absl::StrCat(refused, " ", number), Refusals::written(place_.rank, here)));
  }
  TROUPE_ASSIGN_OR_RETURN(const std::int64_t come, store.add(what + " come", 1));
  if (come == place_.world) TROUPE_RETURN_IF_ERROR(store.set(all_here, ""));
  TROUPE_RETURN_IF_ERROR(hear(all_here).status());
  TROUPE_ASSIGN_OR_RETURN(const std::int64_t count, store.add(refused, 0));
  if (count == 0) return ok();
  Refusals refusals;
  for (std::int64_t number = 1; number <= count; ++number) {
    TROUPE_ASSIGN_OR_RETURN(const std::string refusal, hear(absl::StrCat(refused, " ", number)));
    refusals.add(refusal);
  }
  return here.ok() ? due_to(refusals.first(), refusals.text()) : Status(here.code(), refusals.text());
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

Status JobWorld::give_up(const Status& why) {
  const std::lock_guard lock(calls_);
  if (!joined_) return ok();
  (void)joined_->abort(why);
  const auto& cause = joined_->store()->cause();
  return cause && cause->rank != place_.rank ? due_to(cause->rank, cause->reason) : ok();
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
