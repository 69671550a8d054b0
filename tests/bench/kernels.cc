#include "tests/bench/kernels.h"

#include <algorithm>
#include <cstring>
#include <functional>

#include "absl/strings/str_cat.h"
#include "kernels/cpu/cpu.h"
#include "runtime/base/clock.h"
#include "runtime/device/host_stream.h"
#include "tests/bench/peak.h"

namespace troupe::bench {
namespace {

using namespace kernels;  // every op by its name
using device::DType;
using device::Shape;
using device::Tensor;

// Bigger together than the caches, so that bytes come from memory: 32 MiB of bf16, 64 MiB of fp32 a tensor.
constexpr std::int64_t kRows = 8192, kChannels = 2048;
constexpr std::int64_t kElements = kRows * kChannels;
constexpr std::int64_t kScratchBytes = std::int64_t{192} << 20;

class KernelBench {
 public:
  explicit KernelBench(int threads)
      : threads_(threads),
        pool_(std::int64_t{1} << 30),
        stream_("bench", threads, pool_.take("scratch", kScratchBytes)) {}

  void run() {
    measure_copy();
    measure_multiply_add();
    for (const DType type : {DType::kBF16, DType::kF32}) {
      norms(type);
      activations(type);
      embeddings(type);
      products(type);
    }
    elementwise();
    optimizer();
    for (const DType type : {DType::kBF16, DType::kF32}) {
      attention(type);
      loss(type);
    }
  }
  std::vector<BenchRow> rows;

 private:
  // The shortest of several calls: other work on the machine only ever adds.
  double seconds(const std::function<void(device::Stream&)>& call, int calls = 6) {
    SteadyClock clock;
    double best = 1e30;
    for (int i = 0; i < calls; ++i) {
      stream_.synchronize();
      const auto begin = clock.now_ns();
      call(stream_);
      stream_.synchronize();
      if (i > 0) best = std::min(best, static_cast<double>(clock.now_ns() - begin) * 1e-9);
    }
    return best;
  }
  Tensor tensor(DType type, const Shape& shape) {
    Tensor made(pool_, "bench", type, shape);
    TensorView view = made.view();
    if (type == DType::kI32) {
      std::memset(view.raw(), 0, static_cast<std::size_t>(view.bytes()));
    } else {
      table_.fill(stream_, {view, 0.5f});
    }
    stream_.synchronize();
    return made;
  }
  void memory(const std::string& op, DType type, double bytes, double bar,
              const std::function<void(device::Stream&)>& call) {
    const double taken = seconds(call);
    rows.push_back({absl::StrCat("kernels/", op, " ", std::string(device::name(type))),
                    bytes / bandwidth_ / taken, "of bound", bar, 0,
                    absl::StrCat(table_.name, ", ", threads_, " threads: ", bytes * 1e-6,
                                 " MB read and written once, over the copy's ", bandwidth_ * 1e-9,
                                 " GB/s, over ", taken * 1e3, " ms")});
  }
  void product(const std::string& op, DType type, double operations, double bar,
               const std::function<void(device::Stream&)>& call) {
    const double taken = seconds(call);
    rows.push_back({absl::StrCat("kernels/", op, " ", std::string(device::name(type))),
                    operations / peak_ / taken, "of bound", bar, 0,
                    absl::StrCat(table_.name, ", ", threads_, " threads: ", operations * 1e-9,
                                 " Gflop over the fp32 multiply-add peak of ", peak_ * 1e-9,
                                 " Gflop/s, over ", taken * 1e3, " ms")});
  }

  void measure_copy() {
    const Tensor from = tensor(DType::kF32, {kElements}), to = tensor(DType::kF32, {kElements});
    const auto bytes = static_cast<double>(kElements * 4);
    const double taken = seconds(
        [&](device::Stream& stream) {
          stream.enqueue([to = to.view().data<float>(),
                          from = from.view().data<float>()](device::StreamContext& context) {
            context.team.split(kElements, 4096, [&](std::int64_t begin, std::int64_t end) {
              std::memcpy(to + begin, from + begin, static_cast<std::size_t>(end - begin) * 4);
            });
          });
        },
        24);  // every other row stands on this one
    bandwidth_ = 2 * bytes / taken;
    rows.push_back(
        {"kernels/copy bandwidth", bandwidth_ * 1e-9, "GB/s", 0, 0,
         absl::StrCat("memcpy of 64 MiB by ", threads_, " threads, bytes read + bytes written over time")});
  }
  void measure_multiply_add() {
    const auto isa = cpu::isa_from_environment().value();
    const auto loop = isa == cpu::Isa::kBaseline ? cpu::multiply_add<cpu::Isa::kBaseline>
                      : isa == cpu::Isa::kAvx2   ? cpu::multiply_add<cpu::Isa::kAvx2>
                                                 : cpu::multiply_add<cpu::Isa::kAvx512>;
    double operations = 0;
    const double taken = seconds([&](device::Stream& stream) {
      stream.enqueue([&operations, loop](device::StreamContext& context) {
        context.team.run([&](int member, int members) {
          float sink = 0.999f;
          const double done = loop(2000000, &sink);
          if (member == 0) operations = done * members + (sink > 1e30f ? 1 : 0);
        });
      });
    });
    peak_ = operations / taken;
    rows.push_back({"kernels/multiply-add peak", peak_ * 1e-9, "Gflop/s", 0, 0,
                    absl::StrCat(table_.name, ", ", threads_,
                                 " threads, 12 independent chains each, 2 operations per multiply-add")});
  }

  void norms(DType type) {
    const auto size = static_cast<double>(device::size_bytes(type)) * static_cast<double>(kElements);
    const Tensor x = tensor(type, {kRows, kChannels}), y = tensor(type, {kRows, kChannels}),
                 w = tensor(type, {kChannels});
    const Tensor mean = tensor(DType::kF32, {kRows}), inverse = tensor(DType::kF32, {kRows});
    const Tensor dw = tensor(DType::kF32, {kChannels}), db = tensor(DType::kF32, {kChannels});
    memory("rmsnorm", type, 2 * size, 0.6, [&](auto& s) { table_.rmsnorm(s, {y, x, w, inverse}); });
    memory("rmsnorm_input_gradient", type, 3 * size, 0.6,  // in place of dy
           [&](auto& s) {
             table_.rmsnorm_input_gradient(s, {y, y, x, w, inverse, {}});
           });
    memory("rmsnorm_weight_gradient", type, 2 * size, 0.5, [&](auto& s) {
      table_.rmsnorm_weight_gradient(s, {dw, y, x, inverse});
    });
    memory("layernorm", type, 2 * size, 0.6, [&](auto& s) {
      table_.layernorm(s, {y, x, w, w, mean, inverse});
    });
    memory("layernorm_input_gradient", type, 3 * size, 0.6, [&](auto& s) {
      table_.layernorm_input_gradient(s, {y, y, x, w, mean, inverse, {}});
    });
    memory("layernorm_weight_gradient", type, 2 * size, 0.5, [&](auto& s) {
      table_.layernorm_weight_gradient(s, {dw, db, y, x, mean, inverse});
    });

    constexpr int kQueryHeads = 8, kKeyHeads = 4;  // of 128: 16 heads of [q | k | v]
    const Tensor head = tensor(type, {128}), heads = tensor(DType::kF32, {kRows, kQueryHeads + kKeyHeads});
    const Tensor dq = tensor(DType::kF32, {128}), dk = tensor(DType::kF32, {128});
    memory("qk_norm", type, 2 * size, 0.5, [&](auto& s) {
      table_.qk_norm(s, {y, x, head, head, heads, kQueryHeads, kKeyHeads});
    });
    memory("qk_norm_input_gradient", type, 0.75 * 3 * size, 0.5,  // v stays
           [&](auto& s) {
             table_.qk_norm_input_gradient(s, {y, y, x, head, head, heads, kQueryHeads, kKeyHeads});
           });
    memory("qk_norm_weight_gradient", type, 0.75 * 2 * size, 0.4, [&](auto& s) {
      table_.qk_norm_weight_gradient(s, {dq, dk, y, x, heads, kQueryHeads, kKeyHeads});
    });
    const Tensor positions = tensor(DType::kI32, {kRows}), frequency = tensor(DType::kF32, {64});
    memory("rope", type, 0.75 * 2 * size, 0.4, [&](auto& s) {
      table_.rope(s, {x, positions, frequency, kQueryHeads, kKeyHeads});
    });
  }

  void activations(DType type) {
    const auto size = static_cast<double>(device::size_bytes(type)) * static_cast<double>(kElements);
    const Tensor x = tensor(type, {kRows, kChannels}), half = tensor(type, {kRows, kChannels / 2}),
                 y = tensor(type, {kRows, kChannels});
    const Tensor samples = tensor(DType::kI32, {8});
    memory("swiglu", type, 1.5 * size, 0.4, [&](auto& s) { table_.swiglu(s, {half, x}); });
    memory("swiglu_input_gradient", type, 2.5 * size, 0.5, [&](auto& s) {
      table_.swiglu_input_gradient(s, {y, half, x});
    });
    for (const auto kind : {GeluKind::kTanh, GeluKind::kExact}) {
      const double bar = kind == GeluKind::kTanh ? 0.35 : 0.2;  // arithmetic, not memory, in bf16
      const std::string suffix = kind == GeluKind::kTanh ? " tanh" : " exact";
      memory("gelu" + suffix, type, 2 * size, bar, [&](auto& s) { table_.gelu(s, {y, x, kind}); });
      memory("gelu_input_gradient" + suffix, type, 3 * size, bar, [&](auto& s) {
        table_.gelu_input_gradient(s, {y, y, x, kind});
      });
    }
    memory("dropout", type, 2 * size, 0.3, [&](auto& s) {
      table_.dropout(s, {y, x, {}, samples, kRows / 8, RandomKey{.seed = 1}, 0.1f});
    });
  }

  void embeddings(DType type) {
    constexpr std::int64_t kVocabulary = 16384;
    const auto size = static_cast<double>(device::size_bytes(type)) * static_cast<double>(kElements);
    const Tensor y = tensor(type, {kRows, kChannels}), tokens = tensor(DType::kI32, {kRows});
    const Tensor weight = tensor(type, {kVocabulary, kChannels});
    auto* ids = tokens.view().data<std::int32_t>();
    for (std::int64_t i = 0; i < kRows; ++i)
      ids[i] = static_cast<std::int32_t>(i * 7919 % kVocabulary);  // each row once
    memory("embedding", type, 2 * size, 0.6, [&](auto& s) {
      table_.embedding(s, {y, tokens, weight, {}, {}});
    });
    const Tensor dweight = tensor(DType::kF32, {kVocabulary, kChannels});
    memory("embedding_weight_gradient", type, size + 8.0 * static_cast<double>(kElements), 0.6, [&](auto& s) {
      table_.embedding_weight_gradient(s, {dweight, {}, tokens, {}, y});
    });
  }

  void elementwise() {
    const Tensor f32 = tensor(DType::kF32, {kElements}), bf16 = tensor(DType::kBF16, {kElements}),
                 other = tensor(DType::kF32, {kElements});
    const auto n = static_cast<double>(kElements);
    memory("fill", DType::kF32, 4 * n, 0.5, [&](auto& s) { table_.fill(s, {f32, 0.25f}); });
    memory("cast to bf16", DType::kF32, 6 * n, 0.6, [&](auto& s) { table_.cast(s, {bf16, f32}); });
    memory("cast to fp32", DType::kBF16, 6 * n, 0.5, [&](auto& s) { table_.cast(s, {f32, bf16}); });
    memory("add", DType::kF32, 12 * n, 0.6, [&](auto& s) { table_.add(s, {f32, f32, other}); });
  }

  void optimizer() {
    const Tensor master = tensor(DType::kF32, {kElements}), m = tensor(DType::kF32, {kElements}),
                 v = tensor(DType::kF32, {kElements});
    const Tensor gradient = tensor(DType::kF32, {kElements}), weight = tensor(DType::kBF16, {kElements});
    const Tensor chunks = tensor(DType::kF64, {(kElements + kNormChunk - 1) / kNormChunk});
    const auto n = static_cast<double>(kElements);
    memory("adamw", DType::kBF16, 34 * n, 0.7, [&](auto& s) {
      AdamW op{.master = master, .m = m, .v = v, .gradient = gradient, .weight = weight};
      op.learning_rate = 1e-4f;
      table_.adamw(s, op);
    });
    memory("squared_norm", DType::kF32, 4 * n, 0.6, [&](auto& s) {
      table_.squared_norm(s, {chunks, gradient});
    });
  }

  void products(DType type) {
    constexpr std::int64_t kTokens = 1024, kIn = 1024, kOut = 2048;
    const double operations = 2.0 * kTokens * kIn * kOut;
    TROUPE_CHECK(table_.matmul_scratch_bytes(kTokens, kIn, kOut, type, threads_) <= kScratchBytes)
        << "the bench's scratch is too small";
    const Tensor x = tensor(type, {kTokens, kIn}), y = tensor(type, {kTokens, kOut}),
                 w = tensor(type, {kOut, kIn});
    const Tensor dweight = tensor(DType::kF32, {kOut, kIn});
    product("matmul", type, operations, 0.7, [&](auto& s) { table_.matmul(s, {y, x, w, {}, {}}); });
    product("matmul_input_gradient", type, operations, 0.7, [&](auto& s) {
      table_.matmul_input_gradient(s, {x, y, w});
    });
    product("matmul_weight_gradient", type, operations, 0.7, [&](auto& s) {
      table_.matmul_weight_gradient(s, {dweight, {}, y, x});
    });
  }

  void attention(DType type) {
    constexpr std::int64_t kBatch = 4, kTokens = 512, kHeadDim = 64;
    constexpr int kHeads = 12;
    TROUPE_CHECK(table_.attention_scratch_bytes(kTokens, kHeadDim, threads_) <= kScratchBytes) << "the bench's scratch is too small";
    const Tensor qkv = tensor(type, {kBatch, kTokens, 3 * kHeads * kHeadDim}), dqkv = tensor(type, {kBatch, kTokens, 3 * kHeads * kHeadDim});
    const Tensor out = tensor(type, {kBatch, kTokens, kHeads * kHeadDim}), sums = tensor(DType::kF32, {kBatch, kHeads, kTokens});
    // two products forward, five backward, of which causality needs half
    const double product_operations = 2.0 * kBatch * kHeads * kTokens * kTokens * kHeadDim / 2;
    product("attention", type, 2 * product_operations, 0.3, [&](auto& s) {
      table_.attention(s, {out, sums, qkv, {}, kHeads, kHeads, 0.125f});
    });
    product("attention_input_gradient", type, 5 * product_operations, 0.3, [&](auto& s) {
      table_.attention_input_gradient(s, {dqkv, out, out, qkv, sums, {}, kHeads, kHeads, 0.125f});
    });
  }

  void loss(DType type) {
    constexpr std::int64_t kTokens = 1024, kHidden = 768, kVocabulary = 16384, kChunk = 512;
    TROUPE_CHECK(cross_entropy_scratch_bytes(kChunk, kVocabulary, kHidden, threads_) <= kScratchBytes) << "the bench's scratch is too small";
    const Tensor x = tensor(type, {kTokens, kHidden}), dx = tensor(type, {kTokens, kHidden}), weight = tensor(type, {kVocabulary, kHidden});
    const Tensor losses = tensor(DType::kF32, {kTokens}), targets = tensor(DType::kI32, {kTokens});
    const Tensor dweight = tensor(DType::kF32, {kVocabulary, kHidden}), logits = tensor(DType::kF32, {kTokens, kVocabulary});
    const double product_operations = 2.0 * kTokens * kHidden * kVocabulary;
    product("cross_entropy_head", type, 3 * product_operations, 0.6, [&](auto& s) {
      table_.cross_entropy_head(s, {losses, x, weight, targets, kVocabulary, dx, dweight, kChunk});
    });
    product("logits", type, product_operations, 0.6, [&](auto& s) { table_.logits(s, {logits, x, weight}); });
    if (type != DType::kF32) return;
    const Tensor many = tensor(DType::kF32, {kElements}), many_targets = tensor(DType::kI32, {kElements}), total = tensor(DType::kF64, {2});
    memory("loss_sum", type, 8.0 * static_cast<double>(kElements), 0.4, [&](auto& s) { table_.loss_sum(s, {total, many, many_targets}); });
  }

  const int threads_;
  const Table& table_ = cpu::table();
  device::BufferPool pool_;
  device::HostStream stream_;
  double bandwidth_ = 0, peak_ = 0;
};

}  // namespace

std::vector<BenchRow> kernel_rows(int threads) {
  KernelBench bench(threads);
  bench.run();
  return std::move(bench.rows);
}

}  // namespace troupe::bench
