#include "kernels/cpu/attention.h"

#include <numeric>

#include "kernels/cpu/isa/attention.h"
#include "kernels/cpu/ops.h"

namespace troupe::kernels::cpu {
namespace {

using device::StreamContext;

struct Layout {
  std::int64_t rows, tokens, q_heads, kv_heads, dim;

  std::int64_t groups() const { return rows * kv_heads; }
  std::int64_t group_heads() const { return q_heads / kv_heads; }
  std::int64_t stride() const { return (q_heads + 2 * kv_heads) * dim; }
  // Offsets of a group's first q head, its k head and its v head in qkv, and of its first head in out.
  std::int64_t q(std::int64_t group) const {
    return group / kv_heads * tokens * stride() + group % kv_heads * group_heads() * dim;
  }
  std::int64_t k(std::int64_t group) const {
    return group / kv_heads * tokens * stride() + (q_heads + group % kv_heads) * dim;
  }
  std::int64_t v(std::int64_t group) const { return k(group) + kv_heads * dim; }
  std::int64_t out(std::int64_t group) const {
    return (group / kv_heads * tokens * q_heads + group % kv_heads * group_heads()) * dim;
  }
};

template <class Op>
Layout layout_of(const Op& op) {
  const std::int64_t heads = op.q_heads + 2 * op.kv_heads;
  const Layout layout{op.qkv.shape()[0], op.qkv.shape()[1], op.q_heads, op.kv_heads,
                      op.qkv.shape()[2] / heads};
  TROUPE_CHECK(layout.dim <= kAttentionHeadDimMost)
      << "attention with heads of " << layout.dim << ": the cpu kernels take at most "
      << kAttentionHeadDimMost;
  return layout;
}

// Group number `group` of a call, for one member of the team.
template <Isa kIsa, class T, class Op>
AttentionGroup<T> group_of(const Op& op, const Layout& layout, std::int64_t group,
                           const StreamContext& context, int member) {
  const std::int64_t floats = attention_scratch_floats<kIsa>(layout.tokens, layout.dim);
  const T* qkv = op.qkv.template data<T>();
  AttentionGroup<T> g;
  g.q = qkv + layout.q(group);
  g.k = qkv + layout.k(group);
  g.v = qkv + layout.v(group);
  g.stride = layout.stride();
  if (op.document_start)
    g.document_start =
        op.document_start.template data<std::int32_t>() + group / layout.kv_heads * layout.tokens;
  g.tokens = layout.tokens;
  g.head_dim = layout.dim;
  g.heads = layout.group_heads();
  g.scale = op.scale;
  g.out = const_cast<T*>(op.out.template data<T>()) + layout.out(group);
  g.out_stride = layout.q_heads * layout.dim;
  g.log_sum_exp = const_cast<float*>(op.log_sum_exp.template data<float>()) +
                  group * layout.group_heads() * layout.tokens;
  if (op.dropout.probability > 0) {
    g.dropout = dropout_mask(op.dropout.key, op.dropout.sample_ids.template data<std::int32_t>(),
                             group / layout.kv_heads, op.dropout.probability);
    g.first_word = first_dropout_word(layout.tokens, group % layout.kv_heads * layout.group_heads(), 0);
  }
  g.scratch = reinterpret_cast<float*>(context.scratch) + member * floats;
  return g;
}

void check_scratch(const StreamContext& context, std::int64_t needed_bytes) {
  TROUPE_CHECK(needed_bytes <= context.scratch_bytes)
      << "attention needs " << needed_bytes << " bytes of scratch, the stream has " << context.scratch_bytes
      << "; see Table::attention_scratch_bytes";
}

}  // namespace

template <Isa kIsa>
std::int64_t attention_scratch_bytes(std::int64_t tokens, std::int64_t head_dim, int threads) {
  return threads * attention_scratch_floats<kIsa>(tokens, head_dim) * 4;
}

// Groups are shared out whole where their number divides by the team's size, else in parts of equal cost.
template <Isa kIsa>
void attention(Stream& stream, const Attention& op) {
  check_shapes(op);
  const Layout layout = layout_of(op);
  if (layout.groups() == 0 || layout.tokens == 0) return;
  by_type(op.qkv.type(), [&]<class T>() {
    stream.enqueue([op, layout](StreamContext& context) {
      const int members = context.team.size();
      check_scratch(context, attention_scratch_bytes<kIsa>(layout.tokens, layout.dim, members));
      const std::int64_t groups = layout.groups();
      const int parts =
          groups >= 8 * members ? 1 : static_cast<int>(members / std::gcd(groups, std::int64_t{members}));
      context.team.run([&](int member, int) {
        for (std::int64_t i = groups * parts * member / members; i < groups * parts * (member + 1) / members;
             ++i) {
          attention_group<kIsa, T>(group_of<kIsa, T>(op, layout, i / parts, context, member),
                                   static_cast<int>(i % parts), parts);
        }
      });
    });
  });
}

template <Isa kIsa>
void attention_input_gradient(Stream& stream, const AttentionInputGradient& op) {
  check_shapes(op);
  const Layout layout = layout_of(op);
  if (layout.groups() == 0 || layout.tokens == 0) return;
  by_type(op.qkv.type(), [&]<class T>() {
    stream.enqueue([op, layout](StreamContext& context) {
      check_scratch(context, attention_scratch_bytes<kIsa>(layout.tokens, layout.dim, context.team.size()));
      context.team.run([&](int member, int members) {
        for (std::int64_t i = layout.groups() * member / members;
             i < layout.groups() * (member + 1) / members; ++i) {
          T* dqkv = op.dqkv.template data<T>();
          attention_group_gradient<kIsa, T>(group_of<kIsa, T>(op, layout, i, context, member),
                                            {op.dout.template data<T>() + layout.out(i), dqkv + layout.q(i),
                                             dqkv + layout.k(i), dqkv + layout.v(i)});
        }
      });
    });
  });
}

TROUPE_CPU_OP(attention, Attention);
TROUPE_CPU_OP(attention_input_gradient, AttentionInputGradient);
template std::int64_t attention_scratch_bytes<Isa::kBaseline>(std::int64_t, std::int64_t, int);
template std::int64_t attention_scratch_bytes<Isa::kAvx2>(std::int64_t, std::int64_t, int);
template std::int64_t attention_scratch_bytes<Isa::kAvx512>(std::int64_t, std::int64_t, int);

}  // namespace troupe::kernels::cpu
