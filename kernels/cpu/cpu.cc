#include "kernels/cpu/cpu.h"

#include <cstdlib>
#include <string>

#include "absl/strings/str_cat.h"
#include "kernels/cpu/attention.h"
#include "kernels/cpu/matmul.h"
#include "kernels/cpu/ops.h"

namespace troupe::kernels::cpu {
namespace {

template <Isa kIsa>
Table make(const char* table_name) {
  Table table;
  table.name = table_name;
  table.matmul = matmul<kIsa>;
  table.matmul_input_gradient = matmul_input_gradient<kIsa>;
  table.matmul_weight_gradient = matmul_weight_gradient<kIsa>;
  table.matmul_scratch_bytes = matmul_scratch_bytes<kIsa>;
  table.attention = attention<kIsa>;
  table.attention_input_gradient = attention_input_gradient<kIsa>;
  table.attention_scratch_bytes = attention_scratch_bytes<kIsa>;
  table.cross_entropy_head = cross_entropy_head<kIsa>;
  table.logits = logits<kIsa>;
  table.rmsnorm = rmsnorm<kIsa>;
  table.rmsnorm_input_gradient = rmsnorm_input_gradient<kIsa>;
  table.rmsnorm_weight_gradient = rmsnorm_weight_gradient<kIsa>;
  table.layernorm = layernorm<kIsa>;
  table.layernorm_input_gradient = layernorm_input_gradient<kIsa>;
  table.layernorm_weight_gradient = layernorm_weight_gradient<kIsa>;
  table.qk_norm = qk_norm<kIsa>;
  table.qk_norm_input_gradient = qk_norm_input_gradient<kIsa>;
  table.qk_norm_weight_gradient = qk_norm_weight_gradient<kIsa>;
  table.rope = rope<kIsa>;
  table.swiglu = swiglu<kIsa>;
  table.swiglu_input_gradient = swiglu_input_gradient<kIsa>;
  table.gelu = gelu<kIsa>;
  table.gelu_input_gradient = gelu_input_gradient<kIsa>;
  table.dropout = dropout<kIsa>;
  table.embedding = embedding<kIsa>;
  table.embedding_weight_gradient = embedding_weight_gradient<kIsa>;
  table.fill = fill<kIsa>;
  table.cast = cast<kIsa>;
  table.add = add<kIsa>;
  table.adamw = adamw<kIsa>;
  table.squared_norm = squared_norm<kIsa>;
  table.loss_sum = loss_sum<kIsa>;
  return table;
}

const char* const kAllowed = "TROUPE_CPU_ISA must be baseline, avx2 or avx512";

}  // namespace

Isa widest_isa() {
  __builtin_cpu_init();
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  return avx512 ? Isa::kAvx512 : avx2 ? Isa::kAvx2 : Isa::kBaseline;
}

StatusOr<Isa> choose_isa(const char* wanted, Isa widest) {
  if (!wanted || !*wanted) return widest;
  for (const Isa isa : kAllIsas) {
    if (std::string(wanted) != name(isa)) continue;
    if (isa <= widest) return isa;
    return absl::FailedPreconditionError(absl::StrCat("TROUPE_CPU_ISA=", wanted, ": this processor has no ",
                                                      wanted, ", its widest is ", name(widest),
                                                      "; unset it, or name that or less"));
  }
  return absl::InvalidArgumentError(absl::StrCat("TROUPE_CPU_ISA=", wanted, ": unknown instruction set; ",
                                                 kAllowed, ", or unset for the widest, here ", name(widest)));
}

StatusOr<Isa> isa_from_environment() { return choose_isa(std::getenv("TROUPE_CPU_ISA"), widest_isa()); }

const Table& table_for(Isa isa) {
  static const Table baseline = make<Isa::kBaseline>("cpu/baseline");
  static const Table avx2 = make<Isa::kAvx2>("cpu/avx2");
  static const Table avx512 = make<Isa::kAvx512>("cpu/avx512");
  return isa == Isa::kBaseline ? baseline : isa == Isa::kAvx2 ? avx2 : avx512;
}

const Table& table() {
  static const Table& chosen = [&]() -> const Table& {
    const auto isa = isa_from_environment();
    TROUPE_CHECK(isa.ok()) << std::string(isa.status().message());
    return table_for(*isa);
  }();
  return chosen;
}

}  // namespace troupe::kernels::cpu
