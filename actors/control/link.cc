#include "actors/control/link.h"

#include "absl/strings/str_cat.h"
#include "actors/control/fields.h"
#include "runtime/base/log.h"

namespace troupe::actors {
namespace {

// A frame: [u16 message type][u16 length of the name][name][fields]; fields that do not fit the header are its bulk (WIRE.md).
constexpr std::size_t kPrefixBytes = 4;

template <class T, class First, class... Rest>
constexpr std::uint16_t index_in(MessageList<First, Rest...>) {
  if constexpr (std::is_same_v<T, First>) {
    return 0;
  } else {
    return static_cast<std::uint16_t>(1 + index_in<T>(MessageList<Rest...>{}));
  }
}

// Stands for an actor of another process.
class Remote final : public actor::Actor {
 public:
  Remote(comm::Transport& transport, Rank rank, std::string target) : transport_(transport), rank_(rank), target_(std::move(target)) {
    register_all(WireMessages{});
  }

 private:
  template <class... Messages>
  void register_all(MessageList<Messages...>) {
    (on(&Remote::template forward<Messages>), ...);
  }
  template <class T>
  void forward(T message) {
    std::vector<std::byte> frame;
    FieldWriter write(frame);
    write(index_in<T>(WireMessages{}), static_cast<std::uint16_t>(target_.size()));
    const auto name = std::as_bytes(std::span(target_.data(), target_.size()));
    frame.insert(frame.end(), name.begin(), name.end());
    const std::size_t prefix_bytes = frame.size();
    fields(write, message);
    if (frame.size() <= comm::kHeaderBytesMost) return send(frame, {}, {});
    const std::size_t bytes = frame.size() - prefix_bytes;
    if (bytes > Link::kMessageBytesMost) {
      return fail(absl::ResourceExhaustedError(absl::StrCat("a message for ", target_, " of rank ", rank_.value, " has ", bytes,
                                                            " bytes, and at most ", Link::kMessageBytesMost, " can travel")));
    }
    const auto whole = std::make_shared<const std::vector<std::byte>>(std::move(frame));
    send(std::span(*whole).first(prefix_bytes), std::span(*whole).subspan(prefix_bytes), [whole](const Status&) {});
  }
  void send(std::span<const std::byte> header, std::span<const std::byte> bulk, comm::Completion sent) {
    transport_.send({.to = rank_, .channel = comm::Channel::kActors, .lane = comm::Lane::kControl, .header = header, .bulk = bulk,
                     .sent = std::move(sent)});
  }

  comm::Transport& transport_;
  const Rank rank_;
  const std::string target_;
};

template <class T>
bool deliver_as(std::span<const std::byte> bytes, const actor::Ref& to) {
  T message;
  FieldReader read(bytes);
  fields(read, message);
  if (read.good()) to.send(std::move(message));
  return read.good();
}

template <class... Messages>
bool deliver(MessageList<Messages...>, std::uint16_t type, std::span<const std::byte> bytes, const actor::Ref& to) {
  bool good = false;
  (void)((index_in<Messages>(WireMessages{}) == type && (good = deliver_as<Messages>(bytes, to), true)) || ...);
  return good;
}

}  // namespace

Link::Link(comm::Transport& transport) : transport_(transport) {
  transport.handle(comm::Channel::kActors, [this](comm::Arrival arrival) { arrive(std::move(arrival)); });
}

void Link::expose(const std::string& name, actor::Ref actor) {
  TROUPE_CHECK(exposed_.emplace(name, std::move(actor)).second) << "two actors exposed as '" << name << "'";
}

actor::Ref Link::remote(actor::System& system, Rank rank, const std::string& name) {
  TROUPE_CHECK(name.size() <= kNameBytesMost) << "an actor's name of " << name.size() << " bytes";
  return system.add<Remote>(absl::StrCat(name, "@", rank.value), transport_, rank, name).self();
}

void Link::arrive(comm::Arrival arrival) {
  const auto frame = arrival.header();
  const auto number = [&](std::size_t at) {
    std::uint16_t value = 0;
    std::memcpy(&value, frame.data() + at, 2);
    return value;
  };
  const Rank from = arrival.from();
  if (frame.size() < kPrefixBytes || frame.size() - kPrefixBytes < number(2)) return refuse(from);
  const auto name = frame.subspan(kPrefixBytes, number(2));
  const auto found = exposed_.find(std::string(reinterpret_cast<const char*>(name.data()), name.size()));
  const auto fields = frame.subspan(kPrefixBytes + name.size());
  const auto bulk_bytes = static_cast<std::size_t>(arrival.bulk_bytes());
  if (found == exposed_.end() || bulk_bytes > kMessageBytesMost || (bulk_bytes > 0 && !fields.empty())) return refuse(from);
  auto& waiting = waiting_[from];
  if (bulk_bytes == 0 && waiting.empty()) {
    give(from, number(0), fields, found->second);
    return;
  }
  waiting.push_back(std::make_shared<Waiting>(Waiting{number(0), found->second, {fields.begin(), fields.end()}, bulk_bytes == 0}));
  if (bulk_bytes == 0) return;
  const std::shared_ptr<Waiting> whole = waiting.back();
  whole->fields.resize(bulk_bytes);
  arrival.fetch(whole->fields.data(), [this, from, whole](const Status& fetched) { came(from, *whole, fetched); });
}

void Link::came(Rank from, Waiting& message, const Status& fetched) {
  auto& waiting = waiting_[from];
  if (!fetched.ok()) return waiting.clear();  // it is down: after a gap nothing of it is delivered
  message.here = true;
  while (!waiting.empty() && waiting.front()->here) {
    const auto next = std::move(waiting.front());
    waiting.pop_front();
    give(from, next->type, next->fields, next->to);
  }
}

void Link::give(Rank from, std::uint16_t type, std::span<const std::byte> fields, const actor::Ref& to) {
  const bool is_of_the_end = type == index_in<JobEnded>(WireMessages{}) || type == index_in<StopRequested>(WireMessages{});
  if (is_of_the_end && before_an_end_) before_an_end_();
  if (!deliver(WireMessages{}, type, fields, to)) refuse(from);
}

void Link::refuse(Rank from) {
  if (refused_.fetch_add(1) == 0) {
    log_error(absl::StrCat("rank ", from.value, " sent what is no message for an actor here: is it the same build?"));
  }
}

}  // namespace troupe::actors
