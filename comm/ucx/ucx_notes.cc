// What transports tell each other.
#include <algorithm>

#include "comm/ucx/ucx_core.h"
#include "runtime/base/first_cause.h"

namespace troupe::comm {

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
