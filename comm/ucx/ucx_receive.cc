// Frames that arrive.
#include <utility>

#include "absl/strings/str_cat.h"
#include "comm/ucx/ucx_core.h"
#include "runtime/base/check.h"
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
  if (!open_) return early_.push_back(std::move(arrived));
  std::unique_ptr<Arrival::Bulk> bulk;
  if (arrived.bulk != nullptr) bulk = std::make_unique<UcxBulk>(this, inbox_, arrived.bulk);
  if (stopping_) return;  // the bulk is let go with all others
  auto& handler = handlers_[static_cast<std::size_t>(arrived.channel)];
  if (!handler) return refuse(Refusal::kNoHandler);
  counted_.frames_received.fetch_add(1, std::memory_order_relaxed);
  handler(Arrival(arrived.from, arrived.header, arrived.bulk == nullptr ? 0 : arrived.bulk->bytes,
                  std::move(bulk)));
}

}  // namespace troupe::comm
