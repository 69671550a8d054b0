// Frames on their way out.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "comm/ucx/ucx_core.h"
#include "runtime/base/check.h"
#include "runtime/base/first_cause.h"

namespace troupe::comm {
namespace {

constexpr int kPiecesOpenMost = 4;  // to one peer: some are agreed upon while one moves

}  // namespace

void UcxCore::submit(std::unique_ptr<OpenSend> open) {
  const bool own_note = open->channel == Channel::kTransport;
  if (stopping_ && !own_note) {
    ready_.emplace_back(Finished{std::move(open->sent), absl::UnavailableError("the transport was stopped")});
    return;
  }
  if (open->to == options_.rank) return submit_to_self(std::move(open));
  Peer& to = peer(open->to);
  if (to.down() || !connect(to)) {
    ready_.emplace_back(Finished{std::move(open->sent), to.cause});
    return;
  }
  open->sequence =
      to.next_sequence[static_cast<std::size_t>(open->lane)][static_cast<std::size_t>(open->channel)]++;
  if (!own_note) counted_.frames_sent.fetch_add(1, std::memory_order_relaxed);
  const auto bulk = open->bulk;
  open->posted_bytes = first_piece_bytes(bulk.size());
  post(to, std::move(open), bulk.first(first_piece_bytes(bulk.size())), bulk.size());
}

UcxCore::Errand UcxCore::run_errand(std::unique_ptr<OpenSend>& open) {
  if (open->to == options_.rank) return Errand::kNotTaken;
  const Peer& to = peer(open->to);
  if (to.down() || !to.connected()) return Errand::kNotTaken;
  const std::size_t open_before = to.sends.items().size();
  submit(std::move(open));
  return ready_.empty() && to.sends.items().size() == open_before ? Errand::kDone : Errand::kGoesOn;
}

// `bulk` goes along now, of `bulk_bytes` that the header tells.
void UcxCore::post(Peer& to, std::unique_ptr<OpenSend> open, std::span<const std::byte> bulk,
                   std::uint64_t bulk_bytes) {
  const auto lane = static_cast<std::size_t>(open->lane);
  open->core = this;
  open->peer = &to;
  write_wire({.job = options_.job,
              .incarnation = reader_.incarnation,
              .from = options_.rank,
              .to = to.rank,
              .lane = open->lane,
              .channel = open->channel,
              .sequence = open->sequence,
              .header_bytes = static_cast<std::uint32_t>(open->bytes.size() - kWireBytes),
              .bulk_bytes = bulk_bytes},
             open->bytes.data());
  OpenSend* posting = to.sends.add(std::move(open));
  ++posting->pieces_open;
  ucp_request_param_t params{};
  params.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_FLAGS |
                        UCP_OP_ATTR_FIELD_MEMORY_TYPE;
  params.cb.send = &UcxCore::on_sent;
  params.user_data = posting;
  params.flags = bulk_bytes > UcxTransport::kEagerBytesMost ? UCP_AM_SEND_FLAG_RNDV : UCP_AM_SEND_FLAG_EAGER;
  params.memory_type = UCS_MEMORY_TYPE_HOST;
  const ucs_status_ptr_t request = ucp_am_send_nbx(
      to.endpoints[lane], posting->whole == nullptr ? kFrameMessage : kPieceMessage, posting->bytes.data(),
      posting->bytes.size(), bulk.empty() ? nullptr : bulk.data(), bulk.size(), &params);
  if (!UCS_PTR_IS_PTR(request)) posted(posting, UCS_PTR_STATUS(request));
}

void UcxCore::on_sent(void* request, ucs_status_t status, void* open) {
  auto* posting = static_cast<OpenSend*>(open);
  ucp_request_free(request);
  posting->core->posted(posting, status);
}

// UCX has let go of a frame or piece.
void UcxCore::posted(OpenSend* open, ucs_status_t status) {
  Peer& to = *open->peer;
  OpenSend* whole = open;
  if (open->whole != nullptr) {
    whole = open->whole;
    --to.pieces_open;
    open->home->take(open);
  }
  --whole->pieces_open;
  if (status != UCS_OK && whole->failed.ok()) {
    whole->failed = failure(to, status);
    whole->cut_short = status == UCS_ERR_CANCELED && !to.down();
    // A frame is missing in a stream that must have none.
    if (!to.down() && !whole->cut_short && status != UCS_ERR_REJECTED) ready_.emplace_back(Failed{&to, status});
  }
  const bool goes_on = whole->failed.ok() && !whole->refused && !to.down();
  if (goes_on && open == whole && whole->posted_bytes < whole->bulk.size())
    to.in_pieces.push_back(whole);  // the first piece is in place
  if (!goes_on) std::erase(to.in_pieces, whole);
  const bool waits_for_cause = whole->cut_short && !to.down();  // fail() finishes it
  if (whole->pieces_open == 0 && !waits_for_cause && (!goes_on || whole->posted_bytes == whole->bulk.size())) finish(whole);
  pump(to);
}

// The later pieces of one bulk after the other, few at a time.
void UcxCore::pump(Peer& to) {
  while (!to.in_pieces.empty() && to.pieces_open < kPiecesOpenMost) {
    OpenSend* whole = to.in_pieces.front();
    const auto piece = whole->bulk.subspan(
        whole->posted_bytes, std::min<std::size_t>(kPieceBytes, whole->bulk.size() - whole->posted_bytes));
    auto open = std::make_unique<OpenSend>();
    open->to = to.rank;
    open->channel = whole->channel;
    open->lane = whole->lane;
    open->sequence = whole->sequence;
    open->whole = whole;
    open->bytes.resize(kWireBytes + kOffsetBytes);
    write_offset(whole->posted_bytes, open->bytes.data() + kWireBytes);
    whole->posted_bytes += piece.size();
    ++whole->pieces_open;
    ++to.pieces_open;
    if (whole->posted_bytes == whole->bulk.size()) to.in_pieces.pop_front();
    post(to, std::move(open), piece, piece.size());
  }
}

Status UcxCore::failure(const Peer& peer, ucs_status_t status) const {
  if (status == UCS_ERR_REJECTED)
    return absl::CancelledError(absl::StrCat("rank ", peer.rank.value, " did not want the bulk"));
  if (peer.down()) return peer.cause;
  return due_to(peer.rank, absl::StrCat("rank ", peer.rank.value, " is down: ", ucs_status_string(status)));
}

void UcxCore::finish(OpenSend* open) {
  const std::unique_ptr<OpenSend> done = open->home->take(open);
  const Peer& to = *done->peer;
  Status result = done->failed;
  if (done->refused) result = failure(to, UCS_ERR_REJECTED);
  if (done->cut_short) result = to.cause;
  if (result.ok() && done->posted_bytes < done->bulk.size()) result = to.cause;
  if (result.ok() && done->channel != Channel::kTransport) {
    counted_.bulk_bytes_sent.fetch_add(static_cast<std::int64_t>(done->bulk.size()),
                                       std::memory_order_relaxed);
  }
  if (done->sent) ready_.emplace_back(Finished{std::move(done->sent), std::move(result)});
}

void UcxCore::submit_to_self(std::unique_ptr<OpenSend> open) {
  counted_.frames_sent.fetch_add(1, std::memory_order_relaxed);
  Arrived arrived{.from = options_.rank,
                  .channel = open->channel,
                  .header = {open->bytes.begin() + kWireBytes, open->bytes.end()}};
  if (open->bulk.empty()) {
    ready_.emplace_back(std::move(arrived));
    ready_.emplace_back(Finished{std::move(open->sent), ok()});
    return;
  }
  arrived.bulk = std::make_shared<HeldBulk>();
  arrived.bulk->form = HeldBulk::Form::kOwn;
  arrived.bulk->peer = &peer(options_.rank);
  arrived.bulk->bytes = static_cast<std::int64_t>(open->bulk.size());
  arrived.bulk->here_bytes = open->bulk.size();
  arrived.bulk->own = std::move(open);
  hold(arrived.bulk);
  ready_.emplace_back(std::move(arrived));
}

void UcxCore::note(Peer& peer, Lane lane, const Note& note, Completion sent) {
  auto open = std::make_unique<OpenSend>();
  open->to = peer.rank;
  open->channel = Channel::kTransport;
  open->lane = lane;
  open->bytes.resize(kWireBytes);
  const auto bytes = note_bytes(note);
  open->bytes.insert(open->bytes.end(), bytes.begin(), bytes.end());
  open->sent = std::move(sent);
  submit(std::move(open));
}

void UcxCore::act(Finished finished) {
  if (finished.completion) finished.completion(std::move(finished.status));
}

}  // namespace troupe::comm
