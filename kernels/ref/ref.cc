#include "kernels/ref/ref.h"

#include "kernels/check_shapes.h"
#include "kernels/ref/run.h"

namespace troupe::kernels::ref {

const Table& table() {
  static const Table kTable = [] {
    Table t;
    t.name = "ref";
    t.matmul_scratch_bytes = [](std::int64_t, std::int64_t, std::int64_t, device::DType, int) {
      return std::int64_t{0};
    };
    t.attention_scratch_bytes = [](std::int64_t, std::int64_t, int) { return std::int64_t{0}; };
#define TROUPE_REF_MEMBER(member, Op)                          \
  t.member = [](Stream& stream, const Op& op) {                \
    check_shapes(op, Types::kAnyFloat);                        \
    stream.enqueue([op](device::StreamContext&) { run(op); }); \
  };
    TROUPE_KERNELS(TROUPE_REF_MEMBER)
#undef TROUPE_REF_MEMBER
    return t;
  }();
  return kTable;
}

}  // namespace troupe::kernels::ref
