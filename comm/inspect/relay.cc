#include "comm/inspect/relay.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"

namespace troupe::comm {
namespace {

using Kind = InspectHeader::Kind;

constexpr std::size_t kControlBytesMost = 64 << 10;  // larger replies go with the bulks, or they would hold control up

std::int64_t share(std::int64_t ns, int tenths) { return ns / 10 * tenths; }

}  // namespace

std::string in_seconds(std::int64_t ns) { return absl::StrCat(std::round(seconds(ns) * 1000) / 1000, " s"); }

InspectRelay::Open* InspectRelay::find(std::int64_t number) {
  const auto found = open_.find(number);
  return found == open_.end() ? nullptr : &found->second;
}

// --- a question, on its way down ---

void InspectRelay::ask(const std::string& question, std::int64_t patience_ns, std::function<void(InspectReply)> reply) {
  const Rank self = transport_.rank();
  Open& open = begin({.tree = RankTree(self, transport_.world()), .question = question, .patience_ns = patience_ns, .from = self,
                      .reply = std::move(reply)});
  known(open, self) = Known::kAnswer;  // the caller sees to it
  --open.missing;
  settle(open);
}

void InspectRelay::arrive(Arrival arrival) {
  const auto header = decode_inspect(arrival.header());
  if (!header) return refuse();
  if (header->kind == Kind::kReplies) return take_replies(std::move(arrival), *header);
  take_question(arrival.from(), *header, arrival.header().subspan(kInspectHeaderBytes), arrival.bulk_bytes() > 0);
}

void InspectRelay::take_question(Rank from, const InspectHeader& header, std::span<const std::byte> question, bool has_bulk) {
  const Rank self = transport_.rank();
  const bool sound = header.root.value >= 0 && header.root.value < transport_.world() && header.patience_ns > 0 &&
                     header.patience_ns <= kPatienceNsMost && question.size() <= kQuestionBytesMost && !has_bulk;
  const RankTree tree(header.root, transport_.world());
  if (!sound || from == self || !tree.within(self, from)) return refuse();
  if (held_for_[from] >= kOpenOfOneMost) return refuse();
  ++held_for_[from];
  Open& open = begin({.tree = tree, .question = {reinterpret_cast<const char*>(question.data()), question.size()},
                      .patience_ns = header.patience_ns, .from = from, .ticket = header.ticket});
  open.job = host_.compute(open.number, open.question);
}

InspectRelay::Open& InspectRelay::begin(Open made) {
  made.number = ++numbers_;
  const std::int64_t now_ns = clock_.now_ns();
  made.deadline_ns = now_ns + share(made.patience_ns, 9);
  made.known.resize(static_cast<std::size_t>(transport_.world()), Known::kNothing);
  made.missing = static_cast<std::int64_t>(made.tree.subtree(transport_.rank()).size());
  Open& open = open_.emplace(made.number, std::move(made)).first->second;
  host_.wake_at(open.deadline_ns);
  for (const Rank child : open.tree.children(transport_.rank())) ask_child(open, child, now_ns);
  return open;
}

void InspectRelay::ask_child(Open& open, Rank child, std::int64_t now_ns) {
  const std::int64_t left_ns = open.deadline_ns - now_ns;
  const std::int64_t patience_ns = open.tree.height(child) == 0 ? left_ns : share(left_ns, 6);
  if (patience_ns <= 0) return;
  const std::int64_t deadline_ns = now_ns + patience_ns;
  open.asked.emplace(child, Asked{.patience_ns = patience_ns, .deadline_ns = deadline_ns});
  if (const auto down = down_.find(child); down != down_.end()) return lose(open, child, down->second);
  host_.wake_at(deadline_ns);
  const InspectHeader header{.kind = Kind::kQuestion, .root = open.tree.root(), .ticket = open.number, .patience_ns = patience_ns};
  transport_.send({.to = child, .channel = Channel::kInspect, .header = encode(header, open.question),
                   .sent = [this, number = open.number, child](const Status& status) {
                     if (status.ok()) return;
                     // Not from within send, where whoever asks is in the middle of it.
                     transport_.post([this, number, child, status] {
                       Open* asking = find(number);
                       if (asking == nullptr) return;
                       lose(*asking, child, status);
                       settle(*asking);
                     });
                   }});
}

// --- replies, on their way up ---

void InspectRelay::take_replies(Arrival arrival, const InspectHeader& header) {
  if (header.ticket <= 0 || header.ticket > numbers_) return refuse();
  Open* open = find(header.ticket);
  if (open == nullptr) return;  // late
  const Rank from = arrival.from();
  const auto asked = open->asked.find(from);
  const bool sound = arrival.header().size() == kInspectHeaderBytes && arrival.bulk_bytes() > 0 &&
                     arrival.bulk_bytes() <= static_cast<std::int64_t>(kRepliesBytesMost);
  if (asked == open->asked.end() || !sound) return refuse();
  // A frame has at least one reply, and of each rank come two at most.
  if (asked->second.waiting.size() >= 2 * open->tree.subtree(from).size()) return refuse();
  asked->second.waiting.push_back(std::move(arrival));
  fetch_next(*open, from);
}

void InspectRelay::fetch_next(Open& open, Rank child) {
  Asked& asked = open.asked.at(child);
  if (asked.fetching || asked.waiting.empty()) return;
  asked.fetching = true;
  Arrival next = std::move(asked.waiting.front());
  asked.waiting.pop_front();
  const auto size = static_cast<std::size_t>(next.bulk_bytes());
  const std::shared_ptr<std::byte[]> bytes = std::make_shared_for_overwrite<std::byte[]>(size);
  next.fetch(bytes.get(), [this, number = open.number, child, bytes, size](const Status& status) {
    fetched(number, child, {bytes.get(), size}, status);
  });
}

void InspectRelay::fetched(std::int64_t number, Rank child, std::span<const std::byte> bytes, const Status& status) {
  Open* open = find(number);
  if (open == nullptr) return;
  open->asked.at(child).fetching = false;
  if (!status.ok()) {
    lose(*open, child, status);
  } else if (auto replies = unpack(bytes)) {
    for (InspectReply& reply : *replies) {
      const bool of_subtree = reply.rank.value >= 0 && reply.rank.value < transport_.world() && open->tree.within(reply.rank, child);
      if (of_subtree) {
        learn(*open, std::move(reply));
      } else {
        refuse();
      }
    }
  } else {
    refuse();
    lose(*open, child, absl::InternalError("it sent replies that cannot be read"));
  }
  fetch_next(*open, child);
  settle(*open);
}

void InspectRelay::answered(std::int64_t number, StatusOr<std::string> answer) {
  Open* open = find(number);
  if (open == nullptr) return;
  InspectReply reply{.rank = transport_.rank(), .status = answer.status(), .text = {}};
  if (answer.ok()) reply.text = std::move(*answer);
  open->job = 0;
  learn(*open, std::move(reply));
  settle(*open);
}

void InspectRelay::learn(Open& open, InspectReply reply) {
  Known& of_it = known(open, reply.rank);
  const Known news = reply.status.ok() ? Known::kAnswer : Known::kFailure;
  if (news <= of_it) return;
  if (of_it == Known::kNothing) --open.missing;
  of_it = news;
  if (open.reply) return open.reply(std::move(reply));
  const std::size_t bytes = packed_bytes(reply);
  if (open.ready_bytes + bytes > kRepliesBytesMost) send_up(open);
  open.ready_bytes += bytes;
  open.ready.push_back(std::move(reply));
}

void InspectRelay::send_up(Open& open) {
  if (open.ready.empty()) return;
  const auto bytes = std::make_shared<std::vector<std::byte>>();
  bytes->reserve(open.ready_bytes);
  for (const InspectReply& reply : open.ready) pack(reply, *bytes);
  open.ready.clear();
  open.ready_bytes = 0;
  ++held_for_[open.from];
  transport_.send({.to = open.from, .channel = Channel::kInspect, .lane = bytes->size() > kControlBytesMost ? Lane::kBulk : Lane::kControl,
                   .header = encode(InspectHeader{.kind = Kind::kReplies, .root = open.tree.root(), .ticket = open.ticket}), .bulk = *bytes,
                   .sent = [this, to = open.from, bytes](const Status&) { release(to); }});
}

// --- what does not come ---

void InspectRelay::lose(Open& open, Rank child, const Status& why) {
  if (std::exchange(open.asked.at(child).lost, true)) return;
  learn(open, {.rank = child, .status = why, .text = {}});
  const std::int64_t now_ns = clock_.now_ns();
  for (const Rank next : open.tree.children(child)) {
    const auto below = open.tree.subtree(next);
    const bool complete = std::none_of(below.begin(), below.end(), [&](Rank rank) { return known(open, rank) == Known::kNothing; });
    if (!complete) ask_child(open, next, now_ns);
  }
}

void InspectRelay::tick() {
  const std::int64_t now = clock_.now_ns();
  std::vector<std::int64_t> numbers;
  for (const auto& [number, open] : open_) numbers.push_back(number);
  for (const std::int64_t number : numbers) {
    Open& open = open_.at(number);
    // Those that are asked instead come into the map meanwhile, with a later deadline.
    for (auto& [child, asked] : open.asked) {
      if (asked.deadline_ns > now) {
        host_.wake_at(asked.deadline_ns);
      } else if (!asked.lost) {
        lose(open, child, absl::DeadlineExceededError(absl::StrCat("no answer within ", in_seconds(asked.patience_ns))));
      }
    }
    if (open.deadline_ns > now) {
      host_.wake_at(open.deadline_ns);
    } else {
      const Rank self = transport_.rank();
      for (const Rank rank : open.tree.subtree(self)) {
        const char* what = rank == self ? "late: its answer was not ready within " : "not reached: no rank above it answered within ";
        learn(open, {.rank = rank, .status = absl::DeadlineExceededError(absl::StrCat(what, in_seconds(open.patience_ns))), .text = {}});
      }
    }
    settle(open);
  }
}

void InspectRelay::peer_down(Rank peer, const Status& cause) {
  down_.emplace(peer, cause);
  std::vector<std::int64_t> numbers;
  for (const auto& [number, open] : open_) numbers.push_back(number);
  for (const std::int64_t number : numbers) {
    Open& open = open_.at(number);
    if (open.from == peer) {
      end(open);
    } else if (open.asked.contains(peer)) {
      lose(open, peer, cause);
      settle(open);
    }
  }
}

void InspectRelay::settle(Open& open) {
  if (open.missing > 0) return;
  send_up(open);
  end(open);
}

void InspectRelay::end(Open& open) {
  if (open.job != 0) host_.forget(open.job);
  if (open.from != transport_.rank()) release(open.from);
  open_.erase(open.number);
}

void InspectRelay::release(Rank peer) {
  const auto held = held_for_.find(peer);
  if (held != held_for_.end() && --held->second == 0) held_for_.erase(held);
}

}  // namespace troupe::comm
