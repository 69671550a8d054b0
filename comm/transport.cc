#include "comm/transport.h"

#include "runtime/base/check.h"

namespace troupe::comm {

void Arrival::fetch(std::byte* into, Completion fetched) {
  TROUPE_CHECK(bulk_ != nullptr) << "fetched a bulk that is not there, or twice";
  // The filling may need the object after this Arrival is gone; it deletes itself or is kept by what is under way.
  const std::unique_ptr<Bulk> bulk = std::move(bulk_);
  bulk->fetch(into, std::move(fetched));
}

}  // namespace troupe::comm
