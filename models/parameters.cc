#include "models/parameters.h"

#include <algorithm>

#include <cmath>

#include "absl/strings/str_cat.h"
#include "runtime/base/rng.h"

namespace troupe::models {
namespace {

using device::Shape;

// Collects the parameters of one block in order and remembers which of them form a role.
class LayoutBuilder {
 public:
  LayoutBuilder(const ModelConfig& config, BlockIndex block) : config_(config) { layout_.block = block; }

  // A role of one parameter.
  void add(Role role, const std::string& name, Shape shape, Init init, std::int64_t exported_rows = -1) {
    open(role, shape);
    part(name, shape, init, exported_rows);
  }
  // A role of several parameters side by side: open it with the whole shape, then its parts in order.
  void open(Role role, Shape whole) {
    layout_.elements = (layout_.elements + 15) / 16 * 16;
    layout_.groups.push_back({role, layout_.elements, whole});
  }
  void part(const std::string& name, Shape shape, Init init, std::int64_t exported_rows = -1) {
    ParameterSpec spec{.name = name, .shape = shape, .exported_rows = exported_rows < 0 ? shape[0] : exported_rows,
                       .offset = layout_.elements, .init = init, .decays = shape.dims() >= 2,
                       .index = layout_.block.value * 64 + static_cast<std::int32_t>(layout_.parameters.size())};
    layout_.elements += shape.elements();
    layout_.parameter_count += spec.exported_shape().elements();
    layout_.parameters.push_back(std::move(spec));
  }
  Shape linear(std::int64_t out, std::int64_t in) const {
    return config_.weight_layout() == kernels::WeightLayout::kOutIn ? Shape{out, in} : Shape{in, out};
  }
  BlockLayout take() { return std::move(layout_); }

 private:
  const ModelConfig& config_;
  BlockLayout layout_;
};

void add_embedding(const ModelConfig& c, LayoutBuilder& b) {
  const std::string prefix = c.family == Family::kGpt2 ? "transformer." : "model.";
  b.add(Role::kTokenEmbedding, prefix + (c.family == Family::kGpt2 ? "wte.weight" : "embed_tokens.weight"),
        {c.padded_vocabulary, c.hidden}, Init::kNormal, c.vocabulary);
  if (c.learned_positions()) b.add(Role::kPositionEmbedding, prefix + "wpe.weight", {c.max_seq_len, c.hidden}, Init::kNormal);
}

void add_gpt2_block(const ModelConfig& c, const std::string& h, LayoutBuilder& b) {
  b.add(Role::kNorm1, h + "ln_1.weight", {c.hidden}, Init::kOne);
  b.add(Role::kNorm1Bias, h + "ln_1.bias", {c.hidden}, Init::kZero);
  b.add(Role::kQkv, h + "attn.c_attn.weight", b.linear(c.qkv_width(), c.hidden), Init::kNormal);
  b.add(Role::kQkvBias, h + "attn.c_attn.bias", {c.qkv_width()}, Init::kZero);
  b.add(Role::kOut, h + "attn.c_proj.weight", b.linear(c.hidden, c.attention_width()), Init::kResidualNormal);
  b.add(Role::kOutBias, h + "attn.c_proj.bias", {c.hidden}, Init::kZero);
  b.add(Role::kNorm2, h + "ln_2.weight", {c.hidden}, Init::kOne);
  b.add(Role::kNorm2Bias, h + "ln_2.bias", {c.hidden}, Init::kZero);
  b.add(Role::kUp, h + "mlp.c_fc.weight", b.linear(c.intermediate, c.hidden), Init::kNormal);
  b.add(Role::kUpBias, h + "mlp.c_fc.bias", {c.intermediate}, Init::kZero);
  b.add(Role::kDown, h + "mlp.c_proj.weight", b.linear(c.hidden, c.intermediate), Init::kResidualNormal);
  b.add(Role::kDownBias, h + "mlp.c_proj.bias", {c.hidden}, Init::kZero);
}

void add_llama_block(const ModelConfig& c, const std::string& l, LayoutBuilder& b) {
  const std::int64_t q = c.attention_width(), kv = c.kv_heads * c.head_dim;
  b.add(Role::kNorm1, l + "input_layernorm.weight", {c.hidden}, Init::kOne);
  b.open(Role::kQkv, {q + 2 * kv, c.hidden});
  b.part(l + "self_attn.q_proj.weight", {q, c.hidden}, Init::kNormal);
  b.part(l + "self_attn.k_proj.weight", {kv, c.hidden}, Init::kNormal);
  b.part(l + "self_attn.v_proj.weight", {kv, c.hidden}, Init::kNormal);
  if (c.qkv_bias()) {
    b.open(Role::kQkvBias, {q + 2 * kv});
    b.part(l + "self_attn.q_proj.bias", {q}, Init::kZero);
    b.part(l + "self_attn.k_proj.bias", {kv}, Init::kZero);
    b.part(l + "self_attn.v_proj.bias", {kv}, Init::kZero);
  }
  if (c.qk_norm()) {
    b.add(Role::kQNorm, l + "self_attn.q_norm.weight", {c.head_dim}, Init::kOne);
    b.add(Role::kKNorm, l + "self_attn.k_norm.weight", {c.head_dim}, Init::kOne);
  }
  b.add(Role::kOut, l + "self_attn.o_proj.weight", {c.hidden, q}, Init::kResidualNormal);
  b.add(Role::kNorm2, l + "post_attention_layernorm.weight", {c.hidden}, Init::kOne);
  b.open(Role::kUp, {2 * c.intermediate, c.hidden});
  b.part(l + "mlp.gate_proj.weight", {c.intermediate, c.hidden}, Init::kNormal);
  b.part(l + "mlp.up_proj.weight", {c.intermediate, c.hidden}, Init::kNormal);
  b.add(Role::kDown, l + "mlp.down_proj.weight", {c.hidden, c.intermediate}, Init::kResidualNormal);
}

void add_head(const ModelConfig& c, LayoutBuilder& b) {
  if (c.layer_norm()) {
    b.add(Role::kNorm1, "transformer.ln_f.weight", {c.hidden}, Init::kOne);
    b.add(Role::kNorm1Bias, "transformer.ln_f.bias", {c.hidden}, Init::kZero);
  } else {
    b.add(Role::kNorm1, "model.norm.weight", {c.hidden}, Init::kOne);
  }
  if (!c.tied_embeddings) b.add(Role::kHead, "lm_head.weight", {c.padded_vocabulary, c.hidden}, Init::kNormal, c.vocabulary);
}

// The block's elements [begin, end).
template <class T>
void initialize_as(const ModelConfig& config, const BlockLayout& layout, std::uint64_t seed, T* master, std::int64_t begin, std::int64_t end) {
  std::fill(master, master + (end - begin), T(0));
  for (const auto& parameter : layout.parameters) {
    // padding rows stay zero
    const std::int64_t from = std::max(begin, parameter.offset);
    const std::int64_t to = std::min(end, parameter.offset + parameter.exported_shape().elements());
    if (from >= to) continue;
    T* values = master + (from - begin);
    if (parameter.init == Init::kOne) std::fill(values, values + (to - from), T(1));
    if (parameter.init != Init::kNormal && parameter.init != Init::kResidualNormal) continue;
    const double std = parameter.init == Init::kNormal ? config.init_std
                                                       : config.init_std / std::sqrt(2.0 * static_cast<double>(config.layers));
    const RandomStream random({.seed = seed, .layer = parameter.index, .use = -1});
    for (std::int64_t i = 0; i < to - from; ++i) {
      values[i] = static_cast<T>(static_cast<float>(std * random.normal(static_cast<std::uint64_t>(from - parameter.offset + i))));
    }
  }
}

}  // namespace

Shape ParameterSpec::exported_shape() const {
  return shape.dims() == 1 ? Shape{exported_rows} : Shape{exported_rows, shape[1]};
}

const BlockLayout::Group* BlockLayout::group(Role role) const {
  for (const auto& candidate : groups) {
    if (candidate.role == role) return &candidate;
  }
  return nullptr;
}

BlockLayout block_layout(const ModelConfig& config, BlockIndex block) {
  LayoutBuilder builder(config, block);
  if (block.value == 0) {
    add_embedding(config, builder);
  } else if (block == config.head_block()) {
    add_head(config, builder);
  } else if (config.family == Family::kGpt2) {
    add_gpt2_block(config, absl::StrCat("transformer.h.", block.value - 1, "."), builder);
  } else {
    add_llama_block(config, absl::StrCat("model.layers.", block.value - 1, "."), builder);
  }
  return builder.take();
}

std::int64_t parameter_count(const ModelConfig& config) {
  return block_layout(config, BlockIndex(0)).parameter_count +
         config.layers * block_layout(config, BlockIndex(1)).parameter_count +
         block_layout(config, config.head_block()).parameter_count;
}

void initialize(const ModelConfig& config, const BlockLayout& layout, std::uint64_t seed, device::TensorView master, std::int64_t begin) {
  const std::int64_t end = begin + master.elements();
  TROUPE_CHECK(begin >= 0 && end <= layout.elements) << "elements [" << begin << ", " << end << ") of a block of " << layout.elements;
  if (master.type() == device::DType::kF64) {
    initialize_as(config, layout, seed, master.data<double>(), begin, end);
  } else {
    initialize_as(config, layout, seed, master.data<float>(), begin, end);
  }
}

}  // namespace troupe::models
