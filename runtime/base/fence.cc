#include "runtime/base/fence.h"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "runtime/base/check.h"

namespace troupe {
namespace {

bool tell_kernel(int command) { return syscall(SYS_membarrier, command, 0, 0) == 0; }
bool be_known() { return tell_kernel(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED); }

}  // namespace

const bool detail::heavy_fence_is_enough = be_known();

void heavy_fence() {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (!detail::heavy_fence_is_enough) return;
  const bool done = tell_kernel(MEMBARRIER_CMD_PRIVATE_EXPEDITED) || (be_known() && tell_kernel(MEMBARRIER_CMD_PRIVATE_EXPEDITED));
  TROUPE_CHECK(done) << "membarrier(2), which was there when this process began";
}

}  // namespace troupe
