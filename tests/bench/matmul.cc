#include "tests/bench/matmul.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "absl/strings/str_cat.h"
#include "kernels/cpu/cpu.h"
#include "runtime/base/clock.h"
#include "runtime/device/host_stream.h"

namespace troupe::bench {
namespace {

using namespace kernels;  // every op by its name
using device::DType;
using device::Shape;
using device::Stream;
using device::Tensor;

constexpr double kBar = 0.9, kAttentionBar = 0.5, kAttentionGradientBar = 0.35;

struct Operation {
  std::string name;
  double flops;
  double bar;
  bool is_product;  // counts for the roofline
  std::function<void(Stream&)> call;
  std::vector<double> seconds = {};

  double rate() const {
    std::vector<double> sorted = seconds;
    std::nth_element(sorted.begin(), sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() / 2),
                     sorted.end());
    return flops / sorted[sorted.size() / 2];
  }
};

class MatmulBench {
 public:
  MatmulBench(int threads, const MatmulShapes& shapes)
      : s_(shapes),
        n_(s_.rows * s_.tokens),
        threads_(threads),
        scratch_bytes_(scratch_bytes()),
        pool_(scratch_bytes_ + tensor_bytes()),
        stream_("bench", threads, pool_.take("scratch", scratch_bytes_)) {}

  std::vector<BenchRow> run() {
    for (const DType type : {DType::kF32, DType::kBF16}) {
      linear("qkv", type, s_.channels, 3 * s_.channels);
      linear("out", type, s_.channels, s_.channels);
      linear("up", type, s_.channels, s_.hidden);
      linear("down", type, s_.hidden, s_.channels);
      head(type);
      attention(type);
    }
    for (int round = 0; round <= s_.rounds; ++round) {
      for (Operation& operation : operations_) {
        const auto begin = clock_.now_ns();
        operation.call(stream_);
        stream_.synchronize();
        // the first round warms up
        if (round > 0) operation.seconds.push_back(static_cast<double>(clock_.now_ns() - begin) * 1e-9);
      }
    }
    return rows();
  }

 private:
  std::int64_t scratch_bytes() const {
    std::int64_t bytes =
        cross_entropy_scratch_bytes(s_.chunk_tokens, s_.padded_vocabulary, s_.channels, threads_);
    bytes = std::max(bytes, table_.matmul_scratch_bytes(n_, s_.channels, s_.hidden, DType::kBF16, threads_));
    bytes = std::max(bytes,
                     table_.matmul_scratch_bytes(n_, s_.channels, 3 * s_.channels, DType::kBF16, threads_));
    return std::max(bytes, table_.attention_scratch_bytes(s_.tokens, s_.channels / s_.heads, threads_));
  }
  std::int64_t tensor_bytes() const {
    const std::int64_t widest = std::max(s_.hidden, 3 * s_.channels);
    return 6 * (14 * n_ * widest + 10 * widest * s_.channels + 3 * s_.padded_vocabulary * s_.channels);
  }
  Tensor tensor(DType type, const Shape& shape, double value = 0.01) {
    Tensor made(pool_, "bench", type, shape);
    table_.fill(stream_, {made.view(), static_cast<float>(value)});
    kept_.push_back(made);
    return made;
  }
  void add(const std::string& name, DType type, double flops, double bar, bool is_product,
           std::function<void(Stream&)> call) {
    operations_.push_back(
        {absl::StrCat(name, " ", std::string(device::name(type))), flops, bar, is_product, std::move(call)});
  }

  void linear(const std::string& name, DType type, std::int64_t in, std::int64_t out) {
    const Tensor x = tensor(type, {n_, in}), y = tensor(type, {n_, out}), weight = tensor(type, {in, out}),
                 bias = tensor(type, {out});
    const Tensor dweight = tensor(DType::kF32, {in, out}), dbias = tensor(DType::kF32, {out});
    const double flops = 2.0 * static_cast<double>(n_ * in * out);
    constexpr auto kLayout = WeightLayout::kInOut;  // GPT-2's
    add(absl::StrCat("matmul/forward ", name), type, flops, kBar, true, [=, this](Stream& stream) {
      table_.matmul(stream, {y, x, weight, bias, {}, kLayout});
    });
    add(absl::StrCat("matmul/input gradient ", name), type, flops, kBar, true, [=, this](Stream& stream) {
      table_.matmul_input_gradient(stream, {x, y, weight, kLayout});
    });
    add(absl::StrCat("matmul/weight gradient ", name), type, flops, kBar, true, [=, this](Stream& stream) {
      table_.matmul_weight_gradient(stream, {dweight, dbias, y, x, kLayout});
    });
  }

  // One chunk: the others are alike.
  void head(DType type) {
    const std::int64_t n = s_.chunk_tokens;
    const Tensor x = tensor(type, {n, s_.channels}), dx = tensor(type, {n, s_.channels});
    const Tensor weight = tensor(type, {s_.padded_vocabulary, s_.channels}),
                 dweight = tensor(DType::kF32, {s_.padded_vocabulary, s_.channels});
    const Tensor loss = tensor(DType::kF32, {n}), targets(pool_, "bench", DType::kI32, {n});
    for (std::int64_t i = 0; i < n; ++i)
      targets.view().data<std::int32_t>()[i] = static_cast<std::int32_t>(i * 7 % s_.vocabulary);
    kept_.push_back(targets);
    add("matmul/cross entropy head", type, 6.0 * static_cast<double>(n * s_.channels * s_.padded_vocabulary),
        kBar, false, [=, this](Stream& stream) {
          table_.cross_entropy_head(stream,
                                    {loss, x, weight, targets, s_.vocabulary, dx, dweight, s_.chunk_tokens});
        });
  }

  void attention(DType type) {
    const std::int64_t dim = s_.channels / s_.heads;
    const Tensor qkv = tensor(type, {s_.rows, s_.tokens, 3 * s_.channels}),
                 dqkv = tensor(type, {s_.rows, s_.tokens, 3 * s_.channels});
    const Tensor out = tensor(type, {s_.rows, s_.tokens, s_.channels}),
                 dout = tensor(type, {s_.rows, s_.tokens, s_.channels});
    const Tensor log_sum_exp = tensor(DType::kF32, {s_.rows, s_.heads, s_.tokens});
    const auto scale = static_cast<float>(1 / std::sqrt(static_cast<double>(dim)));
    // one product over what the causal mask leaves: T (T + 1) / 2 pairs
    const double product = static_cast<double>(s_.rows * s_.heads * s_.tokens * (s_.tokens + 1) * dim);
    add("matmul/attention", type, 2 * product, kAttentionBar, false, [=, this](Stream& stream) {
      table_.attention(stream, {out, log_sum_exp, qkv, {}, s_.heads, s_.heads, scale});
    });
    add("matmul/attention gradient", type, 5 * product, kAttentionGradientBar, false,
        [=, this](Stream& stream) {
          table_.attention_input_gradient(stream,
                                          {dqkv, dout, out, qkv, log_sum_exp, {}, s_.heads, s_.heads, scale});
        });
  }

  std::vector<BenchRow> rows() const {
    const Operation* best = nullptr;
    for (const Operation& o : operations_) {
      if (o.is_product && (!best || o.rate() > best->rate())) best = &o;
    }
    std::vector<BenchRow> rows;
    rows.push_back(
        {"matmul/roofline", best->rate() * 1e-9, "GFLOP/s", 0, 0,
         absl::StrCat("the fastest product of the run, ", best->name, ": 2 m n k over the median time of ",
                      s_.rounds, " interleaved rounds, ", threads_, " threads, ", std::string(table_.name))});
    for (const Operation& o : operations_) {
      rows.push_back({o.name, o.rate() / best->rate(), "of roofline", o.bar, 0,
                      absl::StrCat(o.flops * 1e-9, " Gflop at ", o.rate() * 1e-9, " GFLOP/s, over ",
                                   best->rate() * 1e-9, " GFLOP/s")});
    }
    return rows;
  }

  const MatmulShapes s_;
  const std::int64_t n_;
  const int threads_;
  const Table& table_ = cpu::table();
  const std::int64_t scratch_bytes_;
  SteadyClock clock_;
  device::BufferPool pool_;
  device::HostStream stream_;
  std::vector<Tensor> kept_;
  std::vector<Operation> operations_;
};

}  // namespace

std::vector<BenchRow> matmul_rows(int threads, const MatmulShapes& shapes) {
  return MatmulBench(threads, shapes).run();
}

}  // namespace troupe::bench
