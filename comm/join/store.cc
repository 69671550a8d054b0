#include "comm/join/store.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "comm/join/socket.h"
#include "comm/join/store_protocol.h"

namespace troupe::comm {
namespace {

using namespace std::chrono_literals;

constexpr auto kTryAgainAfter = 50ms;    // nobody listens there yet
constexpr auto kFirstGreetingHas = 2s;   // who accepts and stays silent; twice as long in every round
constexpr auto kAnswerHas = 10s;         // requests that wait for nobody
constexpr auto kAbortHas = 1s;           // the store reads it even if nobody waits for the answer
constexpr auto kStoreIsLateBy = 1s;      // its own deadline comes first, since it knows who is missing

std::string who(const StoreClient::Options& options) {
  return options.relay_of.empty() ? absl::StrCat("rank ", options.rank.value) : absl::StrCat("the relay of host ", options.relay_of);
}

}  // namespace

std::string StoreClient::where() const {
  if (!relay_name_.empty()) return relay_name_;
  return options_.hosts.starts_with('@') ? absl::StrCat("the store's relay at ", options_.hosts)
                                         : absl::StrCat("the store at ", options_.hosts, ":", options_.port);
}

Status StoreClient::over(const Status& broken) {
  if (relay_rank_.value < 0) return fail(broken);
  cause_ = {relay_rank_, absl::StrCat("rank ", relay_rank_.value, " is gone: ", relay_name_, ", which it ran, closed the connection"), true};
  return fail(absl::AbortedError(cause_->reason));
}

StoreClient::Connection StoreClient::release() {
  failed_ = absl::FailedPreconditionError("the connection was given away");
  return {std::exchange(fd_, -1), std::move(splitter_)};
}

StatusOr<std::unique_ptr<StoreClient>> StoreClient::connect(const Options& options, Deadline deadline) {
  const std::vector<std::string> hosts = absl::StrSplit(options.hosts, ',');
  Status last;
  std::chrono::nanoseconds greeting_has = kFirstGreetingHas;
  do {
    for (const auto& host : hosts) {
      if (options.cancel) TROUPE_RETURN_IF_ERROR(options.cancel->status());
      auto fd = connect_to(host, options.port, deadline, options.cancel);
      last = fd.status();
      if (!fd.ok() && std::chrono::steady_clock::now() > options.somebody_by)
        return absl::NotFoundError(absl::StrCat("nobody listens at ", last.message()));
      if (!fd.ok()) continue;
      std::unique_ptr<StoreClient> client(new StoreClient(options, *fd));
      last = client->greet(std::min(deadline, after(greeting_has)), deadline);
      if (last.ok()) return client;
      if (!absl::IsUnavailable(last) && !absl::IsDeadlineExceeded(last)) return last;
    }
    greeting_has *= 2;
    wait_for(-1, 0, std::min(deadline, after(kTryAgainAfter)), options.cancel);
  } while (remaining_ms(deadline) > 0);
  return absl::DeadlineExceededError(absl::StrCat(who(options), " cannot reach the store at port ", options.port, " (", last.message(),
                                                  "): see that rank 0 or the launcher runs and that no firewall is between",
                                                  options.hosts_guess.empty() ? "" : "; ", options.hosts_guess));
}

StoreClient::~StoreClient() {
  if (fd_ >= 0) close(fd_);
}

Status StoreClient::fail(Status status) {
  if (failed_.ok()) failed_ = status;
  return status;
}

Status StoreClient::gave_up(const char* did) const {
  if (options_.cancel) TROUPE_RETURN_IF_ERROR(options_.cancel->status());
  return absl::DeadlineExceededError(absl::StrCat(where(), " ", did));
}

Status StoreClient::send(std::string_view bytes, Deadline deadline) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent > 0) {
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    } else if (errno == EAGAIN) {
      if (!wait_for(fd_, POLLOUT, deadline, options_.cancel)) return fail(gave_up("takes nothing"));  // perhaps half a request
    } else if (errno != EINTR) {
      const Status broken = unreachable(where(), errno);
      TROUPE_RETURN_IF_ERROR(check());  // it may have said why before it closed
      return over(broken);
    }
  }
  return ok();
}

// Takes what has come, without waiting. kUnavailable when the connection is over, kResourceExhausted ("nothing now").
Status StoreClient::read_some() {
  std::array<char, 1 << 16> part;
  const ssize_t count = recv(fd_, part.data(), part.size(), 0);
  if (count > 0) {
    splitter_.append({part.data(), static_cast<std::size_t>(count)});
    return ok();
  }
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return absl::ResourceExhaustedError("nothing now");
  return absl::UnavailableError(absl::StrCat(where(), " closed the connection"));
}

StatusOr<std::string> StoreClient::receive(Deadline deadline) {
  while (true) {
    auto frame = splitter_.next();
    if (!frame.ok())
      return fail(absl::PermissionDeniedError(absl::StrCat(where(), " is no Troupe store: ", frame.status().message())));
    if (*frame) return **std::move(frame);
    if (!wait_for(fd_, POLLIN, deadline, options_.cancel)) return gave_up("does not answer");
    if (const Status status = read_some(); absl::IsUnavailable(status)) return over(status);
  }
}

// Both sides prove that they know the secret; STORE.md. `heard_by`: who says nothing until then is left for the next; who has been heard is
// not, since to leave a store that takes us for a member ends the job.
Status StoreClient::greet(Deadline heard_by, Deadline deadline) {
  const std::string nonce = random_bytes(kNonceBytes);
  FrameWriter writer(protocol::kHello);
  writer.raw(protocol::kMagic)
      .u16(protocol::kVersion)
      .raw(nonce)
      .u8(static_cast<std::uint8_t>(options_.relay_of.empty() ? protocol::Role::kRank : protocol::Role::kRelay))
      .i32(options_.rank.value)
      .i32(options_.world);
  const std::string hello = std::move(writer.text(options_.build).text(options_.relay_of)).finish();
  TROUPE_RETURN_IF_ERROR(send(hello, heard_by));
  const auto refused = [&](FrameReader& reader) -> Status {
    const auto code = static_cast<absl::StatusCode>(reader.i32());
    const Status status(code, absl::StrCat(where(), " refuses ", who(options_), ": ", std::string(reader.text())));
    return reader.ended_well() && !status.ok() && !absl::IsUnavailable(status)
               ? status
               : absl::PermissionDeniedError(absl::StrCat(where(), " is no Troupe store"));
  };

  TROUPE_ASSIGN_OR_RETURN(const std::string challenge, receive(heard_by));
  FrameReader reader(challenge);
  if (reader.type() == protocol::kRefused) return refused(reader);
  const int version = reader.u16();
  const std::string_view store_nonce = reader.raw(kNonceBytes), proof = reader.raw(32);
  if (reader.type() != protocol::kChallenge || !reader.ended_well() || version != protocol::kVersion) {
    return absl::PermissionDeniedError(absl::StrCat(where(), " is no Troupe store, or one of another version"));
  }
  const std::string_view said = std::string_view(hello).substr(4);
  if (!same_proof(proof, protocol::store_proof(options_.secret, said, store_nonce))) {
    return absl::PermissionDeniedError(
        absl::StrCat(where(), " has another secret: it is another job's; set TROUPE_STORE=host:port to use another port"));
  }
  FrameWriter mine(protocol::kProof);
  mine.raw(protocol::client_proof(options_.secret, said, store_nonce));
  TROUPE_RETURN_IF_ERROR(send(std::move(mine).finish(), deadline));

  TROUPE_ASSIGN_OR_RETURN(const std::string welcome, receive(deadline));
  FrameReader last(welcome);
  if (last.type() == protocol::kRefused) return refused(last);
  if (last.type() == protocol::kAborted) return note_aborted(welcome);
  const Rank relay_rank{last.i32()};
  const std::string relay_name(last.text());
  if (last.type() != protocol::kWelcome || !last.ended_well())
    return absl::PermissionDeniedError(absl::StrCat(where(), " is no Troupe store"));
  relay_rank_ = relay_rank;
  relay_name_ = relay_name;
  return ok();
}

FrameWriter StoreClient::request(std::uint8_t type, std::uint32_t& id, Deadline deadline) {
  FrameWriter writer(type);
  writer.u32(id = ++last_id_).u32(static_cast<std::uint32_t>(remaining_ms(deadline)));
  return writer;
}

Status StoreClient::note_aborted(const std::string& frame) {
  FrameReader reader(frame);
  const Rank rank{reader.i32()};
  const bool lost = reader.u8() != 0;
  cause_ = {rank, std::string(reader.text()), lost};
  return fail(absl::AbortedError(cause_->reason));
}

StatusOr<std::string> StoreClient::ask(std::uint32_t id, std::string request, Deadline deadline) {
  TROUPE_RETURN_IF_ERROR(failed_);
  if (request.size() > kFrameBytesMost)
    return absl::InvalidArgumentError(absl::StrCat("a request of ", request.size(), " bytes: allowed are ", kFrameBytesMost));
  TROUPE_RETURN_IF_ERROR(send(request, deadline + kStoreIsLateBy));
  while (true) {
    TROUPE_ASSIGN_OR_RETURN(std::string frame, receive(deadline + kStoreIsLateBy));
    FrameReader reader(frame);
    if (reader.type() == protocol::kAborted) return note_aborted(frame);
    if (reader.u32() == id) return frame;  // others: answers to what was given up before
  }
}

// The reader of an answer's fields if it says ok.
StatusOr<FrameReader> StoreClient::answer(const std::string& frame) {
  FrameReader reader(frame);
  reader.u32();
  const auto code = static_cast<absl::StatusCode>(reader.i32());
  if (reader.type() != protocol::kAnswer)
    return fail(absl::UnavailableError(absl::StrCat(where(), " gave an answer that is none")));
  if (code != absl::StatusCode::kOk) return Status(code, std::string(reader.text()));
  return reader;
}

Status StoreClient::set(const std::string& key, const std::string& value) {
  const Deadline deadline = after(kAnswerHas);
  std::uint32_t id = 0;
  FrameWriter writer = request(protocol::kSet, id, deadline);
  if (value.size() > protocol::kValueBytesMost) {
    return absl::InvalidArgumentError(
        absl::StrCat("a value of ", value.size(), " bytes for '", key, "': allowed are ", protocol::kValueBytesMost));
  }
  TROUPE_ASSIGN_OR_RETURN(const std::string frame, ask(id, std::move(writer.text(key).text(value)).finish(), deadline));
  return answer(frame).status();
}

StatusOr<std::string> StoreClient::get(const std::string& key, Deadline deadline) {
  std::uint32_t id = 0;
  FrameWriter writer = request(protocol::kGet, id, deadline);
  TROUPE_ASSIGN_OR_RETURN(const std::string frame, ask(id, std::move(writer.text(key)).finish(), deadline));
  TROUPE_ASSIGN_OR_RETURN(FrameReader reader, answer(frame));
  return std::string(reader.text());
}

StatusOr<std::int64_t> StoreClient::add(const std::string& key, std::int64_t n) {
  const Deadline deadline = after(kAnswerHas);
  std::uint32_t id = 0;
  FrameWriter writer = request(protocol::kAdd, id, deadline);
  TROUPE_ASSIGN_OR_RETURN(const std::string frame, ask(id, std::move(writer.text(key).i64(n)).finish(), deadline));
  TROUPE_ASSIGN_OR_RETURN(FrameReader reader, answer(frame));
  reader.text();
  return reader.i64();
}

Status StoreClient::barrier(const std::string& name, int count, Deadline deadline) {
  std::uint32_t id = 0;
  FrameWriter writer = request(protocol::kBarrier, id, deadline);
  TROUPE_ASSIGN_OR_RETURN(const std::string frame, ask(id, std::move(writer.text(name).i32(count)).finish(), deadline));
  return answer(frame).status();
}

StatusOr<std::vector<std::string>> StoreClient::exchange(const std::string& address, Deadline deadline) {
  if (address.size() > protocol::kAddressBytesMost) {
    return absl::InvalidArgumentError(
        absl::StrCat("an address of ", address.size(), " bytes: allowed are ", protocol::kAddressBytesMost));
  }
  std::uint32_t id = 0;
  FrameWriter writer = request(protocol::kExchange, id, deadline);
  TROUPE_ASSIGN_OR_RETURN(std::string frame, ask(id, std::move(writer.text(address)).finish(), deadline));
  std::vector<std::string> addresses;
  while (true) {  // several frames when they are many
    FrameReader reader(frame);
    if (reader.type() != protocol::kAddresses) return answer(frame).status();
    reader.u32();
    for (std::uint32_t count = reader.u32(); count > 0 && addresses.size() < static_cast<std::size_t>(options_.world); --count)
      addresses.emplace_back(reader.text());
    if (!reader.ended_well()) return fail(absl::UnavailableError(absl::StrCat(where(), " gave addresses that are none")));
    if (addresses.size() == static_cast<std::size_t>(options_.world)) return addresses;
    TROUPE_ASSIGN_OR_RETURN(frame, receive(deadline + kStoreIsLateBy));
    if (FrameReader(frame).type() == protocol::kAborted) return note_aborted(frame);
  }
}

Status StoreClient::abort(const std::string& reason, Rank first) {
  options_.cancel = nullptr;
  const Deadline deadline = after(kAbortHas);
  std::uint32_t id = 0;
  FrameWriter writer = request(protocol::kAbort, id, deadline);
  const auto frame = ask(id, std::move(writer.i32(first.value).text(reason.substr(0, protocol::kReasonBytesMost))).finish(), deadline);
  return cause_ ? ok() : frame.status();
}

Status StoreClient::goodbye() {
  options_.cancel = nullptr;
  const Deadline deadline = after(kAnswerHas);
  std::uint32_t id = 0;
  FrameWriter writer = request(protocol::kGoodbye, id, deadline);  // sets id: not among the arguments that read it
  const auto frame = ask(id, std::move(writer).finish(), deadline);
  const Status status = frame.ok() ? answer(*frame).status() : frame.status();
  if (status.ok()) failed_ = absl::FailedPreconditionError("this process has left the store");
  return status;
}

Status StoreClient::check() {
  while (failed_.ok()) {
    auto frame = splitter_.next();
    if (!frame.ok()) return fail(absl::UnavailableError(frame.status().message()));
    if (*frame) {
      if (FrameReader(**frame).type() == protocol::kAborted) return note_aborted(**frame);
      continue;
    }
    const Status status = read_some();
    if (absl::IsResourceExhausted(status)) return ok();
    if (!status.ok()) return over(status);
  }
  return failed_;
}

}  // namespace troupe::comm
