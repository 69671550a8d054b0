// Frames that arrive, and their bulks.
#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "comm/ucx/ucx_core.h"
#include "runtime/base/check.h"
#include "runtime/base/first_cause.h"
#include "runtime/base/log.h"

namespace troupe::comm {
namespace {

// What an Arrival holds. May outlive the transport: then the inbox is closed and there is nothing left to do.
class UcxBulk final : public Arrival::Bulk {
 public:
  UcxBulk(UcxCore* core, std::shared_ptr<Inbox> inbox, std::shared_ptr<HeldBulk> held)
      : core_(core), inbox_(std::move(inbox)), held_(std::move(held)) {}

  ~UcxBulk() override {
    if (held_ == nullptr) return;
    if (inbox_->on_progress_thread()) {
      core_->drop(held_);
    } else {
      inbox_->push([core = core_, held = std::move(held_)] { core->drop(held); });
    }
  }

  void fetch(std::byte* into, Completion fetched) override {
    TROUPE_CHECK(inbox_->on_progress_thread()) << "a bulk is fetched on the progress thread";
    core_->fetch(std::exchange(held_, nullptr), into, std::move(fetched));
  }

 private:
  UcxCore* const core_;
  const std::shared_ptr<Inbox> inbox_;
  std::shared_ptr<HeldBulk> held_;
};

}  // namespace

Status UcxCore::listen() {
  TROUPE_RETURN_IF_ERROR(
      worker(Lane::kControl).on_message(kFrameMessage, &UcxCore::on_message<Lane::kControl, false>, this));
  TROUPE_RETURN_IF_ERROR(
      worker(Lane::kControl).on_message(kPieceMessage, &UcxCore::on_message<Lane::kControl, true>, this));
  TROUPE_RETURN_IF_ERROR(
      worker(Lane::kBulk).on_message(kFrameMessage, &UcxCore::on_message<Lane::kBulk, false>, this));
  return worker(Lane::kBulk).on_message(kPieceMessage, &UcxCore::on_message<Lane::kBulk, true>, this);
}

template <Lane lane, bool piece>
ucs_status_t UcxCore::on_message(void* core, const void* header, std::size_t header_bytes, void* data,
                                 std::size_t bytes, const ucp_am_recv_param_t* param) {
  return static_cast<UcxCore*>(core)->take_in(
      {.lane = lane,
       .head = {static_cast<const std::byte*>(header), header_bytes},
       .data = data,
       .bytes = bytes,
       .offered = (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0,
       .lent = (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_DATA) != 0},
      piece);
}

// The answer tells UCX what becomes of the data: in progress keeps it, anything else gives it up.
ucs_status_t UcxCore::take_in(const Message& message, bool is_piece) {
  const WireReading reading = read_wire(reader_, message.head, message.lane, message.bytes);
  const bool bad_piece = is_piece && (reading.frame_header.size() != kOffsetBytes || message.bytes == 0);
  if (reading.refusal != Refusal::kNone || bad_piece) {
    refuse(reading.refusal != Refusal::kNone ? reading.refusal : Refusal::kLength);
    return message.offered ? UCS_ERR_REJECTED : UCS_OK;
  }
  Peer& from = peer(reading.header.from);
  const Channel channel = reading.header.channel;
  if (from.down() || (stopping_ && channel != Channel::kTransport))
    return message.offered ? UCS_ERR_CANCELED : UCS_OK;
  from.heard = true;
  pulse_.heard(from.rank, now_ns_);

  std::shared_ptr<HeldBulk> held = held_of(message, reading.header);
  if (is_piece) {
    ready_.emplace_back(PieceCame{read_offset(reading.frame_header.first<kOffsetBytes>()), held});
    return keep(message, std::move(held));
  }
  Arrived arrived{.from = from.rank,
                  .channel = channel,
                  .header = {reading.frame_header.begin(), reading.frame_header.end()},
                  .bulk = held};
  auto& arrivals = from.arrivals[static_cast<std::size_t>(message.lane)][static_cast<std::size_t>(channel)];
  using Verdict = Sequencer<Arrived>::Verdict;
  switch (arrivals.offer(reading.header.sequence, std::move(arrived),
                         [this](Arrived next) { ready_.emplace_back(std::move(next)); })) {
    case Verdict::kTaken:
      break;
    case Verdict::kTooMany:
      ready_.emplace_back(Failed{&from, UCS_ERR_MESSAGE_TRUNCATED});
      [[fallthrough]];
    case Verdict::kUsed:
      refuse(Refusal::kSequence);
      return message.offered ? UCS_ERR_REJECTED : UCS_OK;
  }
  return keep(message, std::move(held));
}

std::shared_ptr<HeldBulk> UcxCore::held_of(const Message& message, const WireHeader& header) {
  if (message.bytes == 0) return nullptr;
  auto held = std::make_shared<HeldBulk>();
  held->form = message.offered ? HeldBulk::Form::kOffered
               : message.lent  ? HeldBulk::Form::kLent
                               : HeldBulk::Form::kCopied;
  held->peer = &peer(header.from);
  held->lane = message.lane;
  held->channel = header.channel;
  held->sequence = header.sequence;
  held->bytes = static_cast<std::int64_t>(header.bulk_bytes);
  held->here_bytes = message.bytes;
  return held;
}

ucs_status_t UcxCore::keep(const Message& message, std::shared_ptr<HeldBulk> held) {
  if (held == nullptr) return UCS_OK;
  const bool copied = held->form == HeldBulk::Form::kCopied;
  if (copied) {
    const auto* first = static_cast<const std::byte*>(message.data);
    held->copy.assign(first, first + message.bytes);
  } else {
    held->data = message.data;
  }
  hold(std::move(held));
  return copied ? UCS_OK : UCS_INPROGRESS;
}

void UcxCore::refuse(Refusal refusal) {
  counted_.refused.fetch_add(1, std::memory_order_relaxed);
  bool& logged = refusal_logged_[static_cast<std::size_t>(refusal)];
  if (!std::exchange(logged, true)) {
    log_warning(absl::StrCat("rank ", options_.rank.value, " refused a frame: ", refusal_text(refusal),
                             " (said once, all are counted)"));
  }
}

void UcxCore::act(Arrived arrived) {
  if (arrived.channel == Channel::kTransport) return take_note(peer(arrived.from), arrived.header);
  std::unique_ptr<Arrival::Bulk> bulk;
  if (arrived.bulk != nullptr) bulk = std::make_unique<UcxBulk>(this, inbox_, arrived.bulk);
  if (stopping_) return;  // the bulk is let go with all others
  auto& handler = handlers_[static_cast<std::size_t>(arrived.channel)];
  if (!handler) return refuse(Refusal::kNoHandler);
  counted_.frames_received.fetch_add(1, std::memory_order_relaxed);
  handler(Arrival(arrived.from, arrived.header, arrived.bulk == nullptr ? 0 : arrived.bulk->bytes,
                  std::move(bulk)));
}

// ---- bulks ----

void UcxCore::hold(std::shared_ptr<HeldBulk> held) {
  held->place = held_.size();
  held_.push_back(std::move(held));
}

// Nothing is left to do for it. The caller keeps a share.
void UcxCore::settle(HeldBulk& held) {
  if (std::exchange(held.settled, true)) return;
  const std::size_t place = held.place;
  if (place + 1 != held_.size()) {
    held_[place] = std::move(held_.back());
    held_[place]->place = place;
  }
  held_.pop_back();
}

void UcxCore::release(HeldBulk& held) {
  if (held.settled) return;
  for (const PieceCame& came : std::exchange(held.early, {})) release(*came.piece);
  if (held.data != nullptr) ucp_am_data_release(worker(held.lane).get(), std::exchange(held.data, nullptr));
  settle(held);
}

void UcxCore::fetch(const std::shared_ptr<HeldBulk>& held, std::byte* into, Completion fetched) {
  Peer& from = *held->peer;
  if (held->settled) {  // its sender is down, or we stop
    ready_.emplace_back(Finished{
        std::move(fetched), from.down() ? from.cause : absl::UnavailableError("the transport was stopped")});
    return;
  }
  if (held->form == HeldBulk::Form::kOwn) {
    std::memcpy(into, held->own->bulk.data(), held->here_bytes);
    counted_.bulk_bytes_received.fetch_add(held->bytes, std::memory_order_relaxed);
    counted_.bulk_bytes_sent.fetch_add(held->bytes, std::memory_order_relaxed);
    ready_.emplace_back(Finished{std::move(fetched), ok()});
    ready_.emplace_back(Finished{std::move(held->own->sent), ok()});
    return release(*held);
  }
  auto open = std::make_unique<OpenFetch>();
  open->into = into;
  open->fetched = std::move(fetched);
  open->lane = held->lane;
  open->channel = held->channel;
  open->sequence = held->sequence;
  open->bytes = static_cast<std::uint64_t>(held->bytes);
  open->core = this;
  open->peer = &from;
  std::vector<PieceCame> early = std::exchange(held->early, {});
  pull(*held, from.fetches.add(std::move(open)), 0);
  for (PieceCame& came : early) act(std::move(came));
}

void UcxCore::act(PieceCame came) {
  HeldBulk& piece = *came.piece;
  if (piece.settled) return;
  for (const auto& open : piece.peer->fetches.items()) {
    if (open->lane != piece.lane || open->channel != piece.channel || open->sequence != piece.sequence)
      continue;
    if (came.offset != open->asked_bytes || piece.here_bytes > open->bytes - open->asked_bytes) break;
    return pull(piece, open.get(), came.offset);
  }
  for (const auto& held : held_) {
    const bool first =
        held->form != HeldBulk::Form::kOffered && held->here_bytes < static_cast<std::uint64_t>(held->bytes);
    if (first && held->peer == piece.peer && held->lane == piece.lane && held->channel == piece.channel &&
        held->sequence == piece.sequence) {
      return held->early.push_back(std::move(came));
    }
  }
  refuse(Refusal::kSequence);
  release(piece);
}

void UcxCore::pull(HeldBulk& held, OpenFetch* open, std::uint64_t offset) {
  std::byte* into = open->into + offset;
  const std::size_t bytes = held.here_bytes;
  open->asked_bytes += bytes;
  ++open->pulls_open;
  if (held.form != HeldBulk::Form::kOffered) {
    std::memcpy(into, held.form == HeldBulk::Form::kLent ? held.data : held.copy.data(), bytes);
    release(held);
    return pulled(open, UCS_OK, bytes);
  }
  ucp_request_param_t params{};
  params.op_attr_mask =
      UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_MEMORY_TYPE;
  params.cb.recv_am = &UcxCore::on_fetched;
  params.user_data = open;
  params.memory_type = UCS_MEMORY_TYPE_HOST;
  const ucs_status_ptr_t request =
      ucp_am_recv_data_nbx(worker(held.lane).get(), std::exchange(held.data, nullptr), into, bytes, &params);
  settle(held);  // UCX took the descriptor, whatever comes of it
  if (!UCS_PTR_IS_PTR(request)) pulled(open, UCS_PTR_STATUS(request), bytes);
}

void UcxCore::on_fetched(void* request, ucs_status_t status, std::size_t bytes, void* open) {
  auto* fetching = static_cast<OpenFetch*>(open);
  ucp_request_free(request);
  fetching->core->pulled(fetching, status, bytes);
}

void UcxCore::pulled(OpenFetch* open, ucs_status_t status, std::size_t bytes) {
  --open->pulls_open;
  if (status == UCS_OK) {
    open->come_bytes += bytes;
  } else if (open->failed.ok()) {
    open->failed =
        open->peer->down()
            ? open->peer->cause
            : due_to(open->peer->rank, absl::StrCat("rank ", open->peer->rank.value, " is down: its bulk could not be fetched: ",
                                                    ucs_status_string(status)));
  }
  const bool goes_on = open->failed.ok() && !open->peer->down() && open->come_bytes < open->bytes;
  if (open->pulls_open == 0 && !goes_on) finish(open);
}

void UcxCore::finish(OpenFetch* open) {
  const std::unique_ptr<OpenFetch> done = open->home->take(open);
  Status result = done->failed;
  if (result.ok() && done->come_bytes < done->bytes) result = done->peer->cause;
  if (result.ok())
    counted_.bulk_bytes_received.fetch_add(static_cast<std::int64_t>(done->bytes), std::memory_order_relaxed);
  if (done->fetched) ready_.emplace_back(Finished{std::move(done->fetched), std::move(result)});
}

void UcxCore::drop(const std::shared_ptr<HeldBulk>& held) {
  if (held->settled) return;
  if (held->form == HeldBulk::Form::kOffered && !stopping_) {
    // Releasing would complete the send as if it had been fetched: the sender must know before.
    held->refused = true;
    note(*held->peer, Lane::kControl,
         {.kind = NoteKind::kBulkRefused, .lane = held->lane, .channel = held->channel, .sequence = held->sequence});
    return;
  }
  if (held->own != nullptr) {
    ready_.emplace_back(
        Finished{std::move(held->own->sent), stopping_ ? absl::UnavailableError("the transport was stopped")
                                                       : absl::CancelledError("the bulk was not wanted")});
  }
  release(*held);
}

void UcxCore::release_offers_of(const Peer& peer) {
  const auto all = held_;
  for (const auto& held : all) {
    if (held->peer == &peer && held->form == HeldBulk::Form::kOffered) release(*held);
  }
}

// ---- what transports tell each other ----

void UcxCore::take_note(Peer& from, std::span<const std::byte> bytes) {
  Note said;
  if (!read_note(bytes, said)) return refuse(Refusal::kLength);
  if (from.down()) return;
  switch (said.kind) {
    case NoteKind::kHeartbeat:
      return;
    case NoteKind::kBulkRefused:
      for (const auto& open : from.sends.items()) {
        if (open->lane == said.lane && open->channel == said.channel && open->sequence == said.sequence)
          open->refused = true;
      }
      return note(from, Lane::kControl, {.kind = NoteKind::kRefusalSeen, .lane = said.lane, .channel = said.channel, .sequence = said.sequence});
    case NoteKind::kRefusalSeen: {
      const auto refused = std::find_if(held_.begin(), held_.end(), [&](const auto& held) {
        return held->refused && held->peer == &from && held->lane == said.lane &&
               held->channel == said.channel && held->sequence == said.sequence;
      });
      if (refused != held_.end()) release(*std::shared_ptr<HeldBulk>(*refused));
      return;
    }
    case NoteKind::kBye: {
      if (++from.byes < kLanes) return;  // what it sent before has come on both
      from.bye_seen = true;
      if (said.first.value >= options_.world) said.first = from.rank;
      const Status why = said.reason.empty()            ? ok()
                         : said.first == from.rank ? absl::UnknownError(said.reason)
                                                   : due_to(said.first, said.reason);
      // Our endpoints close when the answer has left: it may be the first frame on them.
      return note(from, Lane::kControl, {.kind = NoteKind::kByeSeen},
                  [this, &from, cause = departure(from.rank, why)](const Status&) { fail(from, cause); });
    }
    case NoteKind::kByeSeen:
      from.bye_seen = true;
      return;
  }
}

}  // namespace troupe::comm
