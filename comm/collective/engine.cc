#include "comm/collective/engine.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "comm/collective/operation.h"
#include "comm/collective/wire.h"
#include "runtime/base/check.h"
#include "runtime/base/first_cause.h"

namespace troupe::comm {

struct CollectiveEngine::OpenGroup {
  Group group;
  Layout layout;
  std::string name;
  Status failure{};
};

struct CollectiveEngine::Early {
  CollectiveHeader header;
  Arrival arrival;
};

CollectiveEngine::CollectiveEngine(Transport& transport) : transport_(transport) {
  transport.handle(Channel::kCollectives, [this](Arrival arrival) { arrive(std::move(arrival)); });
}
CollectiveEngine::~CollectiveEngine() = default;

void CollectiveEngine::add_group(GroupId id, std::vector<Rank> members, const std::vector<int>& node_of, std::string name) {
  const auto self = std::find(members.begin(), members.end(), transport_.rank());
  TROUPE_CHECK(self != members.end()) << "group " << id << " without rank " << transport_.rank();
  Group group{.id = id, .members = members, .self = static_cast<int>(self - members.begin())};
  Layout layout(group.size(), node_of);
  if (name.empty()) name = absl::StrCat(id.value);
  auto open = std::make_unique<OpenGroup>(OpenGroup{.group = std::move(group), .layout = std::move(layout), .name = std::move(name)});
  TROUPE_CHECK(groups_.emplace(id, std::move(open)).second) << "group " << id << " is there already";
}

void CollectiveEngine::start(GroupId group, OperationId id, Collective collective, Completion done) {
  const auto found = groups_.find(group);
  TROUPE_CHECK(found != groups_.end()) << "no group " << group;
  // From a completion the next operation goes at once; its own completion is called when that one has returned.
  if (transport_.on_progress_thread() && sweeping_ && found->second->failure.ok()) {
    return begin(*found->second, id, std::move(collective), std::move(done));
  }
  transport_.post([this, &open = *found->second, id, collective = std::move(collective), done = std::move(done)]() mutable {
    begin(open, id, std::move(collective), std::move(done));
  });
}

void CollectiveEngine::report(absl::AnyInvocable<void(std::vector<OpenOperation>)> tell) {
  transport_.post([this, tell = std::move(tell)]() mutable {
    std::vector<OpenOperation> open;
    for (const auto& [key, operation] : operations_) {
      const OpenGroup& group = *groups_.at(key.first);
      OpenOperation row{.group = group.name, .id = key.second, .what = operation->describe(), .since_ns = operation->age_ns(), .missing = operation->missing()};
      for (const Rank member : group.group.members) {
        if (std::find(row.missing.begin(), row.missing.end(), member) == row.missing.end()) row.entered.push_back(member);
      }
      open.push_back(std::move(row));
    }
    tell(std::move(open));
  });
}

void CollectiveEngine::begin(OpenGroup& open, OperationId id, Collective collective, Completion done) {
  const Group& group = open.group;
  if (!open.failure.ok()) {
    if (done) done(open.failure);
    return;
  }
  Operation::Scratch scratch;
  if (!scratch_.empty()) {
    scratch = std::move(scratch_.back());
    scratch_.pop_back();
  }
  const Key key{group.id, id};
  auto made = std::make_unique<Operation>(transport_, group, open.layout, id, std::move(collective), std::move(done), std::move(scratch),
                                          changed_, between_nodes_bytes_);
  Operation& operation = *made;
  TROUPE_CHECK(operations_.emplace(key, std::move(made)).second) << "operation " << id << " of group " << group.id << " is open already";
  operation.start();
  if (auto early = early_.extract(key)) {
    for (auto& frame : early.mapped()) {
      if (const Status status = operation.arrive(frame.header, std::move(frame.arrival)); !status.ok()) {
        fail_group(open, id, status, true);
        break;
      }
    }
  }
  sweep();
}

void CollectiveEngine::arrive(Arrival arrival) {
  const auto header = decode_collective(arrival.header());
  const auto found = header ? groups_.find(header->group) : groups_.end();
  if (found == groups_.end()) return;  // another binary's, or garbage: the bulk is refused
  OpenGroup& open = *found->second;
  const auto& members = open.group.members;
  if (header->from >= open.group.size() || members[static_cast<std::size_t>(header->from)] != arrival.from()) return;
  if (header->phase == Phase::kFailed) {
    const bool known = header->offset > 0 && header->offset <= static_cast<std::int64_t>(absl::StatusCode::kUnauthenticated);
    const auto code = known ? static_cast<absl::StatusCode>(header->offset) : absl::StatusCode::kAborted;
    const std::string text(text_after_header(arrival.header()));
    // Its own end is heard from the transport, too: with what it says itself.
    const bool has_first = header->count > 0 && header->count < transport_.world() + 2;
    fail_group(open, header->operation, has_first ? due_to(Rank(static_cast<std::int32_t>(header->count) - 2), text) : Status(code, text), false);
    sweep();
    return;
  }
  if (!open.failure.ok()) return;
  const Key key{header->group, header->operation};
  const auto operation = operations_.find(key);
  if (operation == operations_.end()) {
    early_[key].push_back({*header, std::move(arrival)});
    return;
  }
  if (const Status status = operation->second->arrive(*header, std::move(arrival)); !status.ok()) {
    fail_group(open, header->operation, status, true);
  }
  sweep();
}

// The group's first failure ends all it has, and is told to the others once.
void CollectiveEngine::fail_group(OpenGroup& open, OperationId id, const Status& cause, bool tell) {
  if (!open.failure.ok()) return;
  open.failure = cause;
  for (auto& [key, operation] : operations_) {
    if (key.first == open.group.id) operation->fail(cause);
  }
  std::erase_if(early_, [&](const auto& early) { return early.first.first == open.group.id; });
  if (!tell) return;
  const auto first = first_cause(cause);
  const auto head = encode({.group = open.group.id, .operation = id, .phase = Phase::kFailed, .from = open.group.self,
                            .offset = static_cast<std::int64_t>(cause.code()), .count = first ? first->rank.value + 2 : 0});
  std::vector<std::byte> frame(head.begin(), head.end());
  const std::string text = std::string(cause.message()).substr(0, kHeaderBytesMost - kCollectiveHeaderBytes);
  const auto bytes = std::as_bytes(std::span(text.data(), text.size()));
  frame.insert(frame.end(), bytes.begin(), bytes.end());
  for (int member = 0; member < open.group.size(); ++member) {
    if (member == open.group.self) continue;
    transport_.send({.to = open.group.members[static_cast<std::size_t>(member)], .channel = Channel::kCollectives, .header = frame});
  }
}

void CollectiveEngine::peer_down(Rank peer, const Status& cause) {
  for (auto& [id, open] : groups_) {
    const auto& members = open->group.members;
    if (std::find(members.begin(), members.end(), peer) != members.end()) fail_group(*open, OperationId(0), cause, true);
  }
  sweep();
}

// Ends what has ended. A completion may start the next operation, which comes back here.
void CollectiveEngine::sweep() {
  swept_again_ = true;
  if (sweeping_) return;
  sweeping_ = true;
  while (std::exchange(swept_again_, false)) {
    for (auto it = operations_.begin(); it != operations_.end();) {
      if (!it->second->ended()) {
        if (!it->second->failure().ok()) fail_group(*groups_.at(it->first.first), it->first.second, it->second->failure(), true);
        ++it;
        continue;
      }
      const std::unique_ptr<Operation> ended = std::move(it->second);
      const Status failure = ended->failure();
      const Key key = it->first;
      it = operations_.erase(it);
      if (!failure.ok()) fail_group(*groups_.at(key.first), key.second, failure, true);
      scratch_.push_back(ended->finish());
    }
  }
  sweeping_ = false;
}

}  // namespace troupe::comm
