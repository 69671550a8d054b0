// Bulks of frames that arrived: held until they are fetched or dropped, pulled in pieces.
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "comm/ucx/ucx_core.h"
#include "runtime/base/first_cause.h"

namespace troupe::comm {

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

}  // namespace troupe::comm
