// The loss head, a chunk of tokens at a time: logits = x W^T in fp32, softmax and its gradient in place, dx =
// dlogits W, dW += dlogits^T x. Memory that moves per chunk: logits 3 x 4 bytes each, the weight 2 x, its
// fp32 gradient 2 x: hence large chunks. Masked tokens cost nothing: where there are any, the others are
// gathered into full chunks.
#include "kernels/cpu/isa/cross_entropy.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/cpu/gemm.h"
#include "kernels/cpu/ops.h"

namespace troupe::kernels::cpu {
namespace {

using device::DType;
using device::StreamContext;

// Gathered chunks are filled up with zero rows to a multiple of this, so that few different shapes occur
// (onednn.h).
constexpr std::int64_t kRowGrain = 32;

std::int64_t aligned(std::int64_t bytes) { return (bytes + 63) / 64 * 64; }

template <Isa kIsa, class T>
class Head {
 public:
  Head(StreamContext& context, const CrossEntropyHead& op)
      : context_(context),
        op_(op),
        rows_(op.x.shape()[0]),
        channels_(op.x.shape()[1]),
        padded_(op.weight.shape()[0]),
        chunk_(std::min(op.chunk_tokens, rows_)),
        targets_(op.targets.template data<std::int32_t>()) {}

  void run() {
    if (rows_ == 0) return;
    const bool masked = mask_and_check();
    const std::int64_t held = masked ? (chunk_ + kRowGrain - 1) / kRowGrain * kRowGrain : chunk_;
    logits_ = static_cast<float*>(take(held * padded_ * 4));
    if (masked) {
      gathered_x_ = static_cast<T*>(take(held * channels_ * size_bytes(op_.x.type())));
      gathered_dx_ = static_cast<T*>(take(held * channels_ * size_bytes(op_.x.type())));
      tokens_ = static_cast<std::int64_t*>(take(chunk_ * 8));
    }
    for (std::int64_t next = 0; next < rows_;) next = masked ? run_gathered(next) : run_chunk(next);
  }

 private:
  void* take(std::int64_t bytes) {
    void* taken = context_.scratch + taken_bytes_;
    taken_bytes_ += aligned(bytes);
    TROUPE_CHECK(taken_bytes_ <= context_.scratch_bytes)
        << "cross_entropy_head needs more than " << taken_bytes_ << " bytes of scratch, the stream has "
        << context_.scratch_bytes << "; see cross_entropy_scratch_bytes";
    return taken;
  }

  // Zeroes what belongs to masked tokens; whether there are any.
  bool mask_and_check() {
    bool masked = false;
    for (std::int64_t n = 0; n < rows_; ++n) {
      TROUPE_CHECK(-1 <= targets_[n] && targets_[n] < op_.vocabulary)
          << "CrossEntropyHead: targets[" << n << "] is " << targets_[n] << ", must be -1 or in [0, "
          << op_.vocabulary << ")";
      if (targets_[n] >= 0) continue;
      masked = true;
      op_.loss.template data<float>()[n] = 0;
      if (op_.dx) std::memset(static_cast<void*>(op_.dx.template data<T>() + n * channels_), 0, row_bytes());
    }
    return masked;
  }

  std::int64_t run_chunk(std::int64_t first) {
    const std::int64_t count = std::min(chunk_, rows_ - first);
    const auto token = [first](std::int64_t row) { return first + row; };
    products(x() + first * channels_, op_.dx ? op_.dx.template data<T>() + first * channels_ : nullptr, count,
             count, token);
    return first + count;
  }

  std::int64_t run_gathered(std::int64_t next) {
    std::int64_t count = 0;
    for (; next < rows_ && count < chunk_; ++next) {
      if (targets_[next] < 0) continue;
      std::memcpy(static_cast<void*>(gathered_x_ + count * channels_), x() + next * channels_, row_bytes());
      tokens_[count++] = next;
    }
    if (count == 0) return next;
    const std::int64_t held = (count + kRowGrain - 1) / kRowGrain * kRowGrain;
    std::memset(static_cast<void*>(gathered_x_ + count * channels_), 0,
                static_cast<std::size_t>(held - count) * row_bytes());
    products(gathered_x_, op_.dx ? gathered_dx_ : nullptr, held, count,
             [this](std::int64_t row) { return tokens_[row]; });
    for (std::int64_t row = 0; op_.dx && row < count; ++row) {
      std::memcpy(static_cast<void*>(op_.dx.template data<T>() + tokens_[row] * channels_),
                  gathered_dx_ + row * channels_, row_bytes());
    }
    return next;
  }

  // `held` rows of x, of which `count` are tokens and the rest zero.
  template <class Token>
  void products(const T* x, T* dx, std::int64_t held, std::int64_t count, const Token& token) {
    const DType type = op_.x.type();
    multiply({.m = held,
              .n = padded_,
              .k = channels_,
              .a = {x, type, channels_, false},
              .b = {op_.weight.raw(), type, channels_, true},
              .c = {.data = logits_, .type = DType::kF32, .stride = padded_}});
    float* loss = op_.loss.template data<float>();
    context_.team.split(held, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row) {
        float* logits = logits_ + row * padded_;
        if (row >= count) {
          std::memset(logits, 0, static_cast<std::size_t>(padded_) * sizeof(T));
          continue;
        }
        const std::int64_t n = token(row);
        const SoftmaxRow softmax =
            softmax_row<kIsa, T>(logits, op_.vocabulary, padded_, targets_[n], dx != nullptr);
        loss[n] = static_cast<float>(std::log(static_cast<double>(softmax.sum)) + softmax.largest -
                                     softmax.target_logit);
      }
    });
    if (!dx) return;
    const GemmOperand dlogits{logits_, type, padded_ * 4 / size_bytes(type), false};
    GemmOperand turned = dlogits;
    turned.transposed = true;
    multiply({.m = held,
              .n = channels_,
              .k = padded_,
              .a = dlogits,
              .b = {op_.weight.raw(), type, channels_, false},
              .c = {.data = dx, .type = type, .stride = channels_}});
    multiply({.m = padded_,
              .n = channels_,
              .k = held,
              .a = turned,
              .b = {x, type, channels_, false},
              .c = {.data = op_.dweight.raw(), .type = DType::kF32, .stride = channels_},
              .accumulate = true});
  }

  // At these widths, in fp32, the panels of AVX2 are a tenth faster than oneDNN 2.6 (512 x 50304 x 768, 2
  // threads).
  void multiply(const Gemm& g) {
    const GemmKernels& kernels = gemm_kernels<kIsa>();
    const bool panels = kIsa == Isa::kAvx2 && g.a.type == DType::kF32 && gemm_path(g) == GemmPath::kOneDnn;
    gemm_by(panels ? GemmPath::kPanels : gemm_path(g), kernels, context_, g, taken_bytes_);
  }

  const T* x() const { return op_.x.template data<T>(); }
  std::size_t row_bytes() const { return static_cast<std::size_t>(channels_) * sizeof(T); }

  StreamContext& context_;
  const CrossEntropyHead& op_;
  const std::int64_t rows_, channels_, padded_, chunk_;
  const std::int32_t* targets_;
  std::int64_t taken_bytes_ = 0;
  float* logits_ = nullptr;
  T* gathered_x_ = nullptr;
  T* gathered_dx_ = nullptr;
  std::int64_t* tokens_ = nullptr;
};

}  // namespace

template <Isa kIsa>
void cross_entropy_head(Stream& stream, const CrossEntropyHead& op) {
  check_shapes(op);
  stream.enqueue([op](StreamContext& context) {
    by_type(op.x.type(), [&]<class T>() { Head<kIsa, T>(context, op).run(); });
  });
}

TROUPE_CPU_OP(cross_entropy_head, CrossEntropyHead);

}  // namespace troupe::kernels::cpu
