#include "actors/control/link.h"

#include "absl/strings/str_cat.h"
#include "actors/control/fields.h"
#include "runtime/base/log.h"

namespace troupe::actors {
namespace {

// A frame: [u16 message type][u16 length of the name][name][fields].
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
    fields(write, message);
    transport_.send({.to = rank_, .channel = comm::Channel::kActors, .lane = comm::Lane::kControl, .header = frame});
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
  transport.handle(comm::Channel::kActors, [this](comm::Arrival arrival) { arrive(arrival); });
}

void Link::expose(const std::string& name, actor::Ref actor) {
  TROUPE_CHECK(exposed_.emplace(name, std::move(actor)).second) << "two actors exposed as '" << name << "'";
}

actor::Ref Link::remote(actor::System& system, Rank rank, const std::string& name) {
  return system.add<Remote>(absl::StrCat(name, "@", rank.value), transport_, rank, name).self();
}

void Link::arrive(const comm::Arrival& arrival) {
  const auto frame = arrival.header();
  const auto number = [&](std::size_t at) {
    std::uint16_t value = 0;
    std::memcpy(&value, frame.data() + at, 2);
    return value;
  };
  if (frame.size() >= kPrefixBytes && frame.size() - kPrefixBytes >= number(2)) {
    const auto name = frame.subspan(kPrefixBytes, number(2));
    const auto found = exposed_.find(std::string(reinterpret_cast<const char*>(name.data()), name.size()));
    if (found != exposed_.end() && deliver(WireMessages{}, number(0), frame.subspan(kPrefixBytes + name.size()), found->second)) return;
  }
  if (refused_.fetch_add(1) == 0) {
    log_error(absl::StrCat("rank ", arrival.from().value, " sent what is no message for an actor here: is it the same build?"));
  }
}

}  // namespace troupe::actors
