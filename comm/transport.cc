#include "comm/transport.h"

#include "absl/strings/str_cat.h"
#include "runtime/base/check.h"
#include "runtime/base/first_cause.h"

namespace troupe::comm {

void Arrival::fetch(std::byte* into, Completion fetched) {
  TROUPE_CHECK(bulk_ != nullptr) << "fetched a bulk that is not there, or twice";
  // The filling may need the object after this Arrival is gone; it deletes itself or is kept by what is under way.
  const std::unique_ptr<Bulk> bulk = std::move(bulk_);
  bulk->fetch(into, std::move(fetched));
}

Status departure(Rank rank, const Status& why) {
  if (why.ok()) return due_to(rank, absl::StrCat("rank ", rank.value, " is down: it stopped its transport"));
  const auto first = first_cause(why);
  if (!first || first->rank == rank)
    return due_to(rank, absl::StrCat("rank ", rank.value, " is down: ", std::string(why.message()).substr(0, kReasonBytesMost)));
  return reworded(due_to(first->rank, first->text.substr(0, kReasonBytesMost)),
                  absl::StrCat(first->text.substr(0, kReasonBytesMost), " (heard from rank ", rank.value, ")"));
}

}  // namespace troupe::comm
