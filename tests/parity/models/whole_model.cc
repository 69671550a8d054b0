#include "tests/parity/models/whole_model.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "models/embedding_block.h"

namespace troupe::parity {
namespace {

using device::ConstTensorView, device::DType, device::Shape, device::Tensor, device::TensorView;
using models::Recompute, models::Role;

constexpr double kPaddingWeight = 7;

std::size_t index(std::int64_t i) { return static_cast<std::size_t>(i); }

double load(const TensorView& view, std::int64_t i) {
  return view.type() == DType::kF64 ? view.data<double>()[i] : static_cast<double>(view.data<float>()[i]);
}

void store(const TensorView& view, std::int64_t i, double value) {
  if (view.type() == DType::kF64) {
    view.data<double>()[i] = value;
  } else {
    view.data<float>()[i] = static_cast<float>(value);
  }
}

void zero(const Tensor& tensor) {
  if (tensor) std::memset(tensor.view().raw(), 0, index(tensor.view().bytes()));
}

void run(task::Task<> body) {
  task::TaskRun run(std::move(body));
  run.resume();
  TROUPE_CHECK(run.done()) << "a block waits for something on one device";
}

std::int64_t scratch_bytes(const models::ModelConfig& c, const kernels::Table& kernels,
                           const models::Geometry& g, std::int64_t chunk_tokens, int threads) {
  std::int64_t bytes =
      kernels::cross_entropy_scratch_bytes(chunk_tokens, c.padded_vocabulary, c.hidden, threads);
  for (const auto& [in, out] : {std::pair{c.hidden, c.qkv_width()},
                                {c.attention_width(), c.hidden},
                                {c.hidden, c.up_width()},
                                {c.intermediate, c.hidden},
                                {c.hidden, c.padded_vocabulary}}) {
    bytes = std::max(bytes, kernels.matmul_scratch_bytes(g.rows(), in, out, g.compute, threads));
  }
  return std::max(bytes, kernels.attention_scratch_bytes(g.seq_len, c.head_dim, threads));
}

}  // namespace

WholeModel::WholeModel(Setup setup) : setup_(std::move(setup)) {
  const auto status = models::validate(setup_.config);
  TROUPE_CHECK(status.ok()) << std::string(status.message());
  device::CountingAllocator count;
  take(count);
  const auto scratch =
      scratch_bytes(setup_.config, setup_.kernels, setup_.geometry, setup_.chunk_tokens, setup_.threads);
  pool_ = std::make_unique<device::BufferPool>(count.total_bytes() + device::BufferPool::rounded(scratch));
  device::PoolAllocator from(*pool_);
  take(from);
  stream_ =
      std::make_unique<device::HostStream>("whole model", setup_.threads, pool_->take("scratch", scratch));
  if (inverse_frequency_) models::write_inverse_frequencies(setup_.config, inverse_frequency_);
  for (const auto& block : blocks_) {
    for (const auto& tensor : {block.weights, block.gradients, block.m, block.v}) zero(tensor);
    for (const auto& parameter : block.layout.parameters) {
      const auto real = parameter.exported_shape().elements();
      for (auto i = real; i < parameter.shape.elements(); ++i)
        store(block.weights, parameter.offset + i, kPaddingWeight);
    }
  }
  zero(head_gradient_);
}

WholeModel::~WholeModel() = default;

// Asked twice: counted, then taken.
void WholeModel::take(device::Allocator& from) {
  const auto& c = setup_.config;
  const auto& g = setup_.geometry;
  blocks_.clear();
  for (std::int32_t b = 0; b < c.blocks(); ++b) {
    Block block{.layout = models::block_layout(c, BlockIndex(b)),
                .weights = {},
                .gradients = {},
                .m = {},
                .v = {},
                .norm_chunks = {}};
    const auto n = block.layout.elements;
    block.weights = from.take("weights", g.compute, {n});
    for (Tensor* sums : {&block.gradients, &block.m, &block.v}) *sums = from.take("sums", g.sums(), {n});
    block.norm_chunks = from.take("sums", DType::kF64, {(n + kernels::kNormChunk - 1) / kernels::kNormChunk});
    blocks_.push_back(std::move(block));
  }
  if (!c.learned_positions()) inverse_frequency_ = from.take("workspace", DType::kF32, {c.head_dim / 2});
  if (c.tied_embeddings) head_gradient_ = from.take("sums", g.sums(), {c.padded_vocabulary, c.hidden});
  total_ = from.take("workspace", DType::kF64, {2});
  logits_ = from.take("workspace", DType::kF32, {g.rows(), c.padded_vocabulary});
  inputs_ = models::MicroBatchInputs::take(from, "workspace", g);
  if (setup_.recompute != Recompute::kNone)
    workspace_ = models::TransformerFrame::keep_all(c, g, from, "workspace");
  frames_.clear();
  x_.clear();
  for (std::int64_t layer = 0; layer < c.layers; ++layer) {
    frames_.push_back(models::TransformerFrame::keep(setup_.recompute, c, g, from, "frames", workspace_));
  }
  for (std::int64_t layer = 0; layer <= c.layers; ++layer)
    x_.push_back(from.take("frames", g.compute, {g.rows(), c.hidden}));
  gradient_frame_ = models::TransformerGradientFrame::take(c, g, from, "workspace");
  head_frame_ = models::HeadFrame::take(c, g, true, from, "frames");
  for (auto& dx : dx_) dx = from.take("workspace", g.compute, {g.rows(), c.hidden});
}

WholeModel::Place WholeModel::place(const std::string& name) const {
  for (const auto& block : blocks_) {
    for (const auto& parameter : block.layout.parameters) {
      if (parameter.name == name) return {&block, &parameter};
    }
  }
  TROUPE_CHECK(false) << "the model has no " << name;
  return {};
}

std::vector<std::string> WholeModel::names() const {
  std::vector<std::string> names;
  for (const auto& block : blocks_) {
    for (const auto& parameter : block.layout.parameters) names.push_back(parameter.name);
  }
  return names;
}

std::vector<double> WholeModel::parameter(const std::string& name) const {
  const auto [block, parameter] = place(name);
  std::vector<double> values(index(parameter->exported_shape().elements()));
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = load(block->weights, parameter->offset + static_cast<std::int64_t>(i));
  }
  return values;
}

void WholeModel::set_parameter(const std::string& name, std::span<const double> values) {
  const auto [block, parameter] = place(name);
  TROUPE_CHECK(values.size() == index(parameter->exported_shape().elements())) << name << " has another size";
  for (std::size_t i = 0; i < values.size(); ++i) {
    store(block->weights, parameter->offset + static_cast<std::int64_t>(i), values[i]);
  }
}

std::vector<double> WholeModel::gradient(const std::string& name) const {
  const auto [block, parameter] = place(name);
  std::vector<double> values(index(parameter->exported_shape().elements()));
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = load(block->gradients, parameter->offset + static_cast<std::int64_t>(i)) / tokens_;
  }
  return values;
}

void WholeModel::set_gradient(const std::string& name, std::span<const double> values) {
  tokens_ = 1;
  const auto [block, parameter] = place(name);
  TROUPE_CHECK(values.size() == index(parameter->exported_shape().elements())) << name << " has another size";
  for (std::size_t i = 0; i < values.size(); ++i) {
    store(block->gradients, parameter->offset + static_cast<std::int64_t>(i), values[i]);
  }
}

double WholeModel::padding_gradient() const {
  double largest = 0;
  for (const auto& block : blocks_) {
    for (const auto& parameter : block.layout.parameters) {
      for (auto i = parameter.exported_shape().elements(); i < parameter.shape.elements(); ++i) {
        largest = std::max(largest, std::abs(load(block.gradients, parameter.offset + i)));
      }
    }
  }
  return largest;
}

void WholeModel::set_batch(const Batch& batch) {
  const auto fill = [](const Tensor& tensor, const std::vector<std::int32_t>& values) {
    TROUPE_CHECK(values.size() == index(tensor.view().elements())) << "a batch of another shape";
    std::copy(values.begin(), values.end(), tensor.view().data<std::int32_t>());
  };
  fill(inputs_.tokens, batch.tokens);
  fill(inputs_.targets, batch.targets);
  fill(inputs_.positions, batch.positions);
  fill(inputs_.document_start, batch.document_start);
  for (std::size_t row = 0; row < batch.sample_ids.size(); ++row) {
    kernels::put_sample_id(inputs_.sample_ids.view().data<std::int32_t>(), static_cast<std::int64_t>(row), batch.sample_ids[row]);
  }
}

models::BlockWeights WholeModel::weights(std::int32_t block) const {
  const auto& b = blocks_[index(block)];
  return {b.layout, b.weights};
}

models::BlockGradients WholeModel::gradients(std::int32_t block) const {
  const auto& b = blocks_[index(block)];
  return {b.layout, b.gradients};
}

models::TransformerBlock WholeModel::transformer(std::int32_t block) const {
  const auto frequencies = inverse_frequency_ ? ConstTensorView(inverse_frequency_) : ConstTensorView();
  return {setup_.config, BlockIndex(block), weights(block), gradients(block), frequencies};
}

models::HeadBlock WholeModel::head() const {
  const auto last = setup_.config.head_block().value;
  const bool tied = setup_.config.tied_embeddings;
  return {setup_.config,
          weights(last),
          gradients(last),
          tied ? weights(0)[Role::kTokenEmbedding] : weights(last)[Role::kHead],
          tied ? TensorView(head_gradient_) : gradients(last)[Role::kHead],
          setup_.chunk_tokens};
}

models::Context WholeModel::context(bool training) const {
  return {.kernels = setup_.kernels,
          .stream = *stream_,
          .geometry = setup_.geometry,
          .inputs = &inputs_,
          .seed = setup_.seed,
          .step = StepId(3),
          .training = training};
}

void WholeModel::synchronize() {
  stream_->synchronize();
  const auto status = stream_->first_error();
  TROUPE_CHECK(status.ok()) << std::string(status.message());
}

void WholeModel::forward(models::Context& ctx) {
  models::EmbeddingBlock embedding(setup_.config, weights(0), gradients(0));
  run(embedding.forward(ctx, x_[0]));
  for (std::int32_t b = 1; b <= setup_.config.layers; ++b) {
    run(transformer(b).forward(ctx, frames_[index(b - 1)], x_[index(b - 1)], x_[index(b)]));
  }
}

double WholeModel::run_loss(models::Context& ctx) {
  run(head().loss(ctx, head_frame_, x_.back(), total_));
  synchronize();
  tokens_ = load(total_, 1);
  return load(total_, 0) / tokens_;
}

double WholeModel::loss() {
  auto ctx = context(true);
  forward(ctx);
  ctx.training = false;  // the head has no dropout: only the gradients are left out
  return run_loss(ctx);
}

double WholeModel::loss_and_gradients() {
  for (const auto& block : blocks_) zero(block.gradients);
  zero(head_gradient_);
  auto ctx = context(true);
  forward(ctx);
  const double loss = run_loss(ctx);
  backward(ctx);
  return loss;
}

void WholeModel::backward(models::Context& ctx) {
  int side = 0;
  run(head().input_gradient(ctx, head_frame_, x_.back(), dx_[side]));
  run(head().weight_gradient(ctx, head_frame_, x_.back()));
  for (auto b = static_cast<std::int32_t>(setup_.config.layers); b >= 1; --b, side = 1 - side) {
    auto block = transformer(b);
    const auto& frame = frames_[index(b - 1)];
    const ConstTensorView x = x_[index(b - 1)], dy = dx_[side];
    run(block.recompute(ctx, setup_.recompute, frame, x));
    run(block.input_gradient(ctx, frame, gradient_frame_, x, dy, dx_[1 - side]));
    run(block.weight_gradient(ctx, frame, gradient_frame_, x, dy));
  }
  models::EmbeddingBlock embedding(setup_.config, weights(0), gradients(0));
  run(embedding.weight_gradient(ctx, dx_[side]));
  if (head_gradient_) {
    const auto both = gradients(0)[Role::kTokenEmbedding];
    setup_.kernels.add(*stream_, {both, both, head_gradient_});
  }
  synchronize();
}

std::vector<double> WholeModel::logits() {
  auto ctx = context(false);
  forward(ctx);
  run(head().logits(ctx, head_frame_, x_.back(), logits_));
  synchronize();
  const auto vocabulary = setup_.config.vocabulary;
  std::vector<double> values;
  for (std::int64_t n = 0; n < setup_.geometry.rows(); ++n) {
    for (std::int64_t v = 0; v < vocabulary; ++v)
      values.push_back(load(logits_, n * setup_.config.padded_vocabulary + v));
  }
  return values;
}

double WholeModel::gradient_norm() {
  for (const auto& block : blocks_)
    setup_.kernels.squared_norm(*stream_, {block.norm_chunks, block.gradients});
  synchronize();
  double squares = 0;
  for (const auto& block : blocks_) {
    for (std::int64_t i = 0; i < block.norm_chunks.view().elements(); ++i)
      squares += load(block.norm_chunks, i);
  }
  return std::sqrt(squares) / tokens_;
}

void WholeModel::update(double learning_rate, std::int64_t step, double norm) {
  const double scale = std::min(1.0, 1.0 / (norm + 1e-6)) / tokens_;
  for (const auto& block : blocks_) {
    for (const auto& parameter : block.layout.parameters) {
      const auto part = [&](const Tensor& flat) {
        return flat.view().rows(parameter.offset, parameter.offset + parameter.shape.elements());
      };
      setup_.kernels.adamw(*stream_, {.master = part(block.weights),
                                      .m = part(block.m),
                                      .v = part(block.v),
                                      .gradient = part(block.gradients),
                                      .weight = part(block.weights),
                                      .learning_rate = static_cast<float>(learning_rate),
                                      .weight_decay = parameter.decays ? 0.1f : 0.0f,
                                      .gradient_scale = static_cast<float>(scale),
                                      .step = step});
    }
  }
  synchronize();
}

}  // namespace troupe::parity
