#include "kernels/check_shapes.h"

#include "kernels/shape_checker.h"

namespace troupe::kernels {
namespace {

using device::Shape;
using enum Holds;

Shape weight_shape(WeightLayout layout, std::int64_t out, std::int64_t in) {
  return layout == WeightLayout::kOutIn ? Shape{out, in} : Shape{in, out};
}

}  // namespace

void check_shapes(const Matmul& op, Types types) {
  ShapeChecker c("Matmul", types);
  const auto n = c.shape_of("y", op.y, 2)[0], out = op.y.shape()[1], in = c.shape_of("x", op.x, 2)[1];
  c.writes("y", op.y, kModel, {n, out});
  c.reads("x", op.x, kModel, {n, in});
  c.reads("weight", op.weight, kModel, weight_shape(op.layout, out, in));
  c.may_read("bias", op.bias, kModel, {out});
  c.may_read("residual", op.residual, kModel, {n, out});
  c.may_alias("y", "residual");
}

void check_shapes(const MatmulInputGradient& op, Types types) {
  ShapeChecker c("MatmulInputGradient", types);
  const auto n = c.shape_of("dy", op.dy, 2)[0], out = op.dy.shape()[1], in = c.shape_of("dx", op.dx, 2)[1];
  c.writes("dx", op.dx, kModel, {n, in});
  c.reads("dy", op.dy, kModel, {n, out});
  c.reads("weight", op.weight, kModel, weight_shape(op.layout, out, in));
}

void check_shapes(const MatmulWeightGradient& op, Types types) {
  ShapeChecker c("MatmulWeightGradient", types);
  const auto n = c.shape_of("dy", op.dy, 2)[0], out = op.dy.shape()[1], in = c.shape_of("x", op.x, 2)[1];
  c.reads("dy", op.dy, kModel, {n, out});
  c.reads("x", op.x, kModel, {n, in});
  c.writes("dweight", op.dweight, kFloat32, weight_shape(op.layout, out, in));
  c.may_write("dbias", op.dbias, kFloat32, {out});
}

void check_shapes(const Rope& op, Types types) {
  ShapeChecker c("Rope", types);
  const auto n = c.shape_of("qkv", op.qkv, 2)[0];
  const auto h = c.heads("qkv", op.qkv.shape(), op.q_heads, op.kv_heads);
  c.require(h.size % 2 == 0, "an even head size", static_cast<double>(h.size));
  c.writes("qkv", op.qkv, kModel, {n, h.columns});
  c.reads("positions", op.positions, kInt32, {n});
  c.reads("inverse_frequency", op.inverse_frequency, kFloat32, {h.size / 2});
}

namespace {

void check_dropout(ShapeChecker& c, const AttentionDropout& dropout, std::int64_t rows) {
  c.require(dropout.probability >= 0 && dropout.probability < 1, "0 <= probability < 1", dropout.probability);
  if (dropout.probability > 0) c.reads("sample_ids", dropout.sample_ids, kInt32, {rows, 2});
}

}  // namespace

void check_shapes(const Attention& op, Types types) {
  ShapeChecker c("Attention", types);
  const Shape qkv = c.shape_of("qkv", op.qkv, 3);
  const auto h = c.heads("qkv", qkv, op.q_heads, op.kv_heads);
  c.reads("qkv", op.qkv, kModel, qkv);
  c.writes("out", op.out, kModel, {qkv[0], qkv[1], h.q * h.size});
  c.writes("log_sum_exp", op.log_sum_exp, kFloat32, {qkv[0], h.q, qkv[1]});
  c.may_read("document_start", op.document_start, kInt32, {qkv[0], qkv[1]});
  check_dropout(c, op.dropout, qkv[0]);
}

void check_shapes(const AttentionInputGradient& op, Types types) {
  ShapeChecker c("AttentionInputGradient", types);
  const Shape qkv = c.shape_of("qkv", op.qkv, 3);
  const auto h = c.heads("qkv", qkv, op.q_heads, op.kv_heads);
  c.reads("qkv", op.qkv, kModel, qkv);
  c.writes("dqkv", op.dqkv, kModel, qkv);
  c.reads("dout", op.dout, kModel, {qkv[0], qkv[1], h.q * h.size});
  c.reads("out", op.out, kModel, {qkv[0], qkv[1], h.q * h.size});
  c.reads("log_sum_exp", op.log_sum_exp, kFloat32, {qkv[0], h.q, qkv[1]});
  c.may_read("document_start", op.document_start, kInt32, {qkv[0], qkv[1]});
  check_dropout(c, op.dropout, qkv[0]);
}

void check_shapes(const Swiglu& op, Types types) {
  ShapeChecker c("Swiglu", types);
  const auto n = c.shape_of("y", op.y, 2)[0], inner = op.y.shape()[1];
  c.writes("y", op.y, kModel, {n, inner});
  c.reads("gate_up", op.gate_up, kModel, {n, 2 * inner});
}

void check_shapes(const SwigluInputGradient& op, Types types) {
  ShapeChecker c("SwigluInputGradient", types);
  const auto n = c.shape_of("dy", op.dy, 2)[0], inner = op.dy.shape()[1];
  c.reads("dy", op.dy, kModel, {n, inner});
  c.writes("dgate_up", op.dgate_up, kModel, {n, 2 * inner});
  c.reads("gate_up", op.gate_up, kModel, {n, 2 * inner});
  c.may_alias("dgate_up", "gate_up");
}

void check_shapes(const Gelu& op, Types types) {
  ShapeChecker c("Gelu", types);
  const Shape x = c.shape_of("x", op.x, 2);
  c.reads("x", op.x, kModel, x);
  c.writes("y", op.y, kModel, x);
  c.may_alias("y", "x");
}

void check_shapes(const GeluInputGradient& op, Types types) {
  ShapeChecker c("GeluInputGradient", types);
  const Shape x = c.shape_of("x", op.x, 2);
  c.reads("x", op.x, kModel, x);
  c.writes("dx", op.dx, kModel, x);
  c.reads("dy", op.dy, kModel, x);
  c.may_alias("dx", "dy");
}

void check_shapes(const Dropout& op, Types types) {
  ShapeChecker c("Dropout", types);
  const Shape x = c.shape_of("x", op.x, 2);
  c.require(op.rows_per_sample >= 1 && x[0] % op.rows_per_sample == 0, "rows_per_sample >= 1, a divisor of N",
            static_cast<double>(op.rows_per_sample));
  c.require(op.probability >= 0 && op.probability < 1, "0 <= probability < 1", op.probability);
  c.reads("x", op.x, kModel, x);
  c.writes("y", op.y, kModel, x);
  c.may_read("residual", op.residual, kModel, x);
  c.reads("sample_ids", op.sample_ids, kInt32, {x[0] / op.rows_per_sample, 2});
  c.may_alias("y", "x");
  c.may_alias("y", "residual");
}

void check_shapes(const Embedding& op, Types types) {
  ShapeChecker c("Embedding", types);
  const auto n = c.shape_of("y", op.y, 2)[0], channels = op.y.shape()[1];
  c.writes("y", op.y, kModel, {n, channels});
  c.reads("tokens", op.tokens, kInt32, {n});
  c.reads("weight", op.weight, kModel, {c.shape_of("weight", op.weight, 2)[0], channels});
  c.together("positions", bool{op.positions}, "position_weight", bool{op.position_weight});
  if (!op.positions) return;
  c.reads("positions", op.positions, kInt32, {n});
  c.reads("position_weight", op.position_weight, kModel,
          {c.shape_of("position_weight", op.position_weight, 2)[0], channels});
}

void check_shapes(const EmbeddingWeightGradient& op, Types types) {
  ShapeChecker c("EmbeddingWeightGradient", types);
  const auto n = c.shape_of("dy", op.dy, 2)[0], channels = op.dy.shape()[1];
  c.reads("dy", op.dy, kModel, {n, channels});
  c.reads("tokens", op.tokens, kInt32, {n});
  c.writes("dweight", op.dweight, kFloat32, {c.shape_of("dweight", op.dweight, 2)[0], channels});
  c.together("positions", bool{op.positions}, "dposition_weight", bool{op.dposition_weight});
  if (!op.positions) return;
  c.reads("positions", op.positions, kInt32, {n});
  c.writes("dposition_weight", op.dposition_weight, kFloat32,
           {c.shape_of("dposition_weight", op.dposition_weight, 2)[0], channels});
}

void check_shapes(const CrossEntropyHead& op, Types types) {
  ShapeChecker c("CrossEntropyHead", types);
  const auto n = c.shape_of("x", op.x, 2)[0], channels = op.x.shape()[1];
  const auto padded = c.shape_of("weight", op.weight, 2)[0];
  c.require(op.vocabulary >= 1 && op.vocabulary <= padded, "1 <= vocabulary <= rows of weight",
            static_cast<double>(op.vocabulary));
  c.require(op.chunk_tokens >= 1, "chunk_tokens >= 1", static_cast<double>(op.chunk_tokens));
  c.reads("x", op.x, kModel, {n, channels});
  c.reads("weight", op.weight, kModel, {padded, channels});
  c.reads("targets", op.targets, kInt32, {n});
  c.writes("loss", op.loss, kFloat32, {n});
  c.together("dx", bool{op.dx}, "dweight", bool{op.dweight});
  c.may_write("dx", op.dx, kModel, {n, channels});
  c.may_write("dweight", op.dweight, kFloat32, {padded, channels});
}

void check_shapes(const Logits& op, Types types) {
  ShapeChecker c("Logits", types);
  const auto n = c.shape_of("x", op.x, 2)[0], channels = op.x.shape()[1];
  const auto padded = c.shape_of("weight", op.weight, 2)[0];
  c.reads("x", op.x, kModel, {n, channels});
  c.reads("weight", op.weight, kModel, {padded, channels});
  c.writes("logits", op.logits, kFloat32, {n, padded});
}

void check_shapes(const Fill& op, Types types) {
  ShapeChecker c("Fill", types);
  c.writes("y", op.y, kFloat, op.y.shape());
}

void check_shapes(const Cast& op, Types types) {
  ShapeChecker c("Cast", types);
  c.reads("x", op.x, kFloat, op.x.shape());
  c.require(op.y.elements() == op.x.elements(), "as many elements in y as in x",
            static_cast<double>(op.y.elements()));
  c.writes("y", op.y, kFloat, op.y.shape());
  c.may_alias("y", "x");
}

void check_shapes(const Add& op, Types types) {
  ShapeChecker c("Add", types);
  c.writes("y", op.y, kModel, op.y.shape());
  c.reads("a", op.a, kModel, op.y.shape());
  c.reads("b", op.b, kModel, op.y.shape());
  c.may_alias("y", "a");
  c.may_alias("y", "b");
}

void check_shapes(const AdamW& op, Types types) {
  ShapeChecker c("AdamW", types);
  const Shape n = c.shape_of("master", op.master, 1);
  c.writes("master", op.master, kFloat32, n);
  c.writes("m", op.m, kFloat32, n);
  c.writes("v", op.v, kFloat32, n);
  c.writes("gradient", op.gradient, kFloat32, n);
  c.writes("weight", op.weight, kModel, n);
  c.may_alias("weight", "master");
  c.require(op.beta1 >= 0 && op.beta1 < 1, "0 <= beta1 < 1", op.beta1);
  c.require(op.beta2 >= 0 && op.beta2 < 1, "0 <= beta2 < 1", op.beta2);
  c.require(op.epsilon >= 0, "epsilon >= 0", op.epsilon);
  c.require(op.step >= 1, "step >= 1", static_cast<double>(op.step));
}

void check_shapes(const SquaredNorm& op, Types types) {
  ShapeChecker c("SquaredNorm", types);
  const auto n = c.shape_of("x", op.x, 1)[0];
  c.reads("x", op.x, kFloat32, {n});
  c.writes("chunks", op.chunks, kFloat64, {(n + kNormChunk - 1) / kNormChunk});
}

void check_shapes(const LossSum& op, Types types) {
  ShapeChecker c("LossSum", types);
  const auto n = c.shape_of("loss", op.loss, 1)[0];
  c.reads("loss", op.loss, kFloat32, {n});
  c.reads("targets", op.targets, kInt32, {n});
  c.writes("total", op.total, kFloat64, {2});
}

}  // namespace troupe::kernels
