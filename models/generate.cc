#include "models/generate.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "models/embedding_block.h"
#include "models/head_block.h"
#include "models/transformer_block.h"
#include "runtime/base/rng.h"
#include "runtime/device/host_stream.h"

namespace troupe::models {
namespace {

// Windows are padded to a power of two, so that few sizes of buffers are needed. What stands behind the last token is never seen:
// attention is causal.
std::int64_t padded(std::int64_t length, std::int64_t limit) {
  std::int64_t size = 32;
  while (size < length) size *= 2;
  return std::min(size, limit);
}

struct Window {
  Geometry geometry;
  MicroBatchInputs inputs;
  TransformerFrame frame;
  Tensor x[2];
};

}  // namespace

struct Generator::Parts {
  ModelConfig config;
  const kernels::Table& kernels;
  std::int64_t max_window;
  std::vector<BlockLayout> layouts;
  std::unique_ptr<device::BufferPool> pool;
  std::vector<Tensor> weights;
  Tensor inverse_frequency, logits;
  HeadFrame head;
  std::map<std::int64_t, Window> windows;
  std::unique_ptr<device::HostStream> stream;

  // Asked twice: counted, then taken.
  void take(device::Allocator& from) {
    weights.clear();
    for (const auto& layout : layouts) weights.push_back(from.take("weights", DType::kF32, {layout.elements}));
    if (!config.learned_positions()) inverse_frequency = from.take("workspace", DType::kF32, {config.head_dim / 2});
    const Geometry one{1, 1, DType::kF32};
    head = HeadFrame::take(config, one, false, from, "workspace");
    logits = from.take("workspace", DType::kF32, {1, config.padded_vocabulary});
    windows.clear();
    for (std::int64_t size = padded(1, max_window);; size = padded(size + 1, max_window)) {
      Window& window = windows[size];
      window.geometry = {1, size, DType::kF32};
      window.inputs = MicroBatchInputs::take(from, "workspace", window.geometry);
      window.frame = TransformerFrame::keep_all(config, window.geometry, from, "workspace");
      for (auto& x : window.x) x = from.take("workspace", DType::kF32, {size, config.hidden});
      if (size == max_window) break;
    }
  }
};

Generator::Generator(const ModelConfig& config, const kernels::Table& kernels, int threads, std::int64_t max_window)
    : parts_(new Parts{.config = config, .kernels = kernels, .max_window = std::min(max_window, config.max_seq_len), .layouts = {},
                       .pool = {}, .weights = {}, .inverse_frequency = {}, .logits = {}, .head = {}, .windows = {}, .stream = {}}) {
  auto& p = *parts_;
  for (std::int32_t block = 0; block < config.blocks(); ++block) p.layouts.push_back(block_layout(config, BlockIndex(block)));
  std::int64_t scratch = kernels::cross_entropy_scratch_bytes(1, config.padded_vocabulary, config.hidden, threads);
  for (const auto& [in, out] : {std::pair{config.hidden, config.qkv_width()}, {config.attention_width(), config.hidden},
                                {config.hidden, config.up_width()}, {config.intermediate, config.hidden},
                                {config.hidden, config.padded_vocabulary}}) {
    scratch = std::max(scratch, kernels.matmul_scratch_bytes(p.max_window, in, out, DType::kF32, threads));
  }
  scratch = std::max(scratch, kernels.attention_scratch_bytes(p.max_window, config.head_dim, threads));
  device::CountingAllocator count;
  p.take(count);
  p.pool = std::make_unique<device::BufferPool>(count.total_bytes() + device::BufferPool::rounded(scratch));
  device::PoolAllocator from(*p.pool);
  p.take(from);
  p.stream = std::make_unique<device::HostStream>("generate", threads, p.pool->take("scratch", scratch));
  if (p.inverse_frequency) write_inverse_frequencies(config, p.inverse_frequency);
}

Generator::~Generator() = default;

TensorView Generator::weights(BlockIndex block) const { return parts_->weights[static_cast<std::size_t>(block.value)]; }

const BlockLayout& Generator::layout(BlockIndex block) const { return parts_->layouts[static_cast<std::size_t>(block.value)]; }

void Generator::forward(const std::vector<std::int32_t>& tokens) {
  auto& p = *parts_;
  const auto length = static_cast<std::int64_t>(tokens.size());
  Window& w = p.windows.at(padded(length, p.max_window));
  const auto fill = [&](const Tensor& tensor, auto value_at) {
    auto* values = tensor.view().data<std::int32_t>();
    for (std::int64_t i = 0; i < tensor.view().elements(); ++i) values[i] = value_at(i);
  };
  fill(w.inputs.tokens, [&](std::int64_t i) { return i < length ? tokens[static_cast<std::size_t>(i)] : 0; });
  fill(w.inputs.positions, [](std::int64_t i) { return static_cast<std::int32_t>(i); });
  fill(w.inputs.document_start, [](std::int64_t) { return 0; });
  fill(w.inputs.sample_ids, [](std::int64_t) { return 0; });

  Context ctx{.kernels = p.kernels, .stream = *p.stream, .geometry = w.geometry, .inputs = &w.inputs, .step = StepId(0), .training = false};
  const auto weights_of = [&](std::int32_t block) {
    return BlockWeights(p.layouts[static_cast<std::size_t>(block)], p.weights[static_cast<std::size_t>(block)].view());
  };
  const auto run = [](task::Task<> body) { task::TaskRun(std::move(body)).resume(); };
  int side = 0;
  EmbeddingBlock embedding(p.config, weights_of(0), {});
  run(embedding.forward(ctx, w.x[side]));
  for (std::int32_t layer = 1; layer <= p.config.layers; ++layer) {
    const auto frequencies = p.inverse_frequency ? ConstTensorView(p.inverse_frequency.view()) : ConstTensorView();
    TransformerBlock block(p.config, BlockIndex(layer), weights_of(layer), {}, frequencies);
    run(block.forward(ctx, w.frame, w.x[side], w.x[1 - side]));
    side = 1 - side;
  }
  const auto head_block = p.config.head_block().value;
  const ConstTensorView projection =
      p.config.tied_embeddings ? weights_of(0)[Role::kTokenEmbedding] : weights_of(head_block)[Role::kHead];
  HeadBlock head(p.config, weights_of(head_block), {}, projection, {}, 1);
  run(head.logits(ctx, p.head, w.x[side].view().rows(length - 1, length), p.logits));
  p.stream->synchronize();
}

std::int32_t Generator::sample(const SamplingOptions& options, std::int64_t index) const {
  const float* logits = parts_->logits.view().data<float>();
  std::vector<std::int32_t> order(static_cast<std::size_t>(parts_->config.vocabulary));
  std::iota(order.begin(), order.end(), 0);
  const auto more_likely = [logits](std::int32_t a, std::int32_t b) { return logits[a] != logits[b] ? logits[a] > logits[b] : a < b; };
  const bool greedy = options.temperature <= 0;
  std::size_t kept = greedy ? 1 : options.top_k > 0 ? static_cast<std::size_t>(options.top_k) : order.size();
  kept = std::min(kept, order.size());
  std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(kept), order.end(), more_likely);
  if (greedy) return order[0];
  std::vector<double> share(kept);
  double sum = 0;
  for (std::size_t i = 0; i < kept; ++i) {
    share[i] = std::exp((logits[order[i]] - logits[order[0]]) / options.temperature);
    sum += share[i];
  }
  double draw = RandomStream({.seed = options.seed, .use = 1}).uniform(static_cast<std::uint64_t>(index)) * sum;
  for (std::size_t i = 0; i < kept; ++i) {
    draw -= share[i];
    if (draw < 0) return order[i];
  }
  return order[kept - 1];
}

void Generator::generate(std::vector<std::int32_t> window, const SamplingOptions& options,
                         const std::function<void(std::int32_t)>& each) {
  TROUPE_CHECK(!window.empty()) << "an empty prompt";
  const auto limit = static_cast<std::size_t>(parts_->max_window);
  for (std::int64_t i = 0; i < options.tokens; ++i) {
    if (window.size() > limit) window.erase(window.begin(), window.end() - static_cast<std::ptrdiff_t>(std::max<std::size_t>(1, limit / 2)));
    forward(window);
    const std::int32_t token = sample(options, i);
    if (token == options.stop_token) return;
    window.push_back(token);
    each(token);
  }
}

}  // namespace troupe::models
