#include "kernels/check_shapes.h"
#include "kernels/shape_checker.h"

namespace troupe::kernels {

using enum Holds;

void check_shapes(const RmsNorm& op, Types types) {
  ShapeChecker c("RmsNorm", types);
  const auto n = c.shape_of("x", op.x, 2)[0], channels = op.x.shape()[1];
  c.reads("x", op.x, kModel, {n, channels});
  c.writes("y", op.y, kModel, {n, channels});
  c.reads("weight", op.weight, kModel, {channels});
  c.writes("inverse_rms", op.inverse_rms, kFloat32, {n});
  c.require(op.epsilon >= 0, "epsilon >= 0", op.epsilon);
}

void check_shapes(const RmsNormInputGradient& op, Types types) {
  ShapeChecker c("RmsNormInputGradient", types);
  const auto n = c.shape_of("x", op.x, 2)[0], channels = op.x.shape()[1];
  c.reads("x", op.x, kModel, {n, channels});
  c.writes("dx", op.dx, kModel, {n, channels});
  c.reads("dy", op.dy, kModel, {n, channels});
  c.reads("weight", op.weight, kModel, {channels});
  c.reads("inverse_rms", op.inverse_rms, kFloat32, {n});
  c.may_read("residual", op.residual, kModel, {n, channels});
  c.may_alias("dx", "dy");
  c.may_alias("dx", "residual");
}

void check_shapes(const RmsNormWeightGradient& op, Types types) {
  ShapeChecker c("RmsNormWeightGradient", types);
  const auto n = c.shape_of("x", op.x, 2)[0], channels = op.x.shape()[1];
  c.reads("x", op.x, kModel, {n, channels});
  c.reads("dy", op.dy, kModel, {n, channels});
  c.reads("inverse_rms", op.inverse_rms, kFloat32, {n});
  c.writes("dweight", op.dweight, kFloat32, {channels});
}

void check_shapes(const LayerNorm& op, Types types) {
  ShapeChecker c("LayerNorm", types);
  const auto n = c.shape_of("x", op.x, 2)[0], channels = op.x.shape()[1];
  c.reads("x", op.x, kModel, {n, channels});
  c.writes("y", op.y, kModel, {n, channels});
  c.reads("weight", op.weight, kModel, {channels});
  c.reads("bias", op.bias, kModel, {channels});
  c.writes("mean", op.mean, kFloat32, {n});
  c.writes("inverse_std", op.inverse_std, kFloat32, {n});
  c.require(op.epsilon >= 0, "epsilon >= 0", op.epsilon);
}

void check_shapes(const LayerNormInputGradient& op, Types types) {
  ShapeChecker c("LayerNormInputGradient", types);
  const auto n = c.shape_of("x", op.x, 2)[0], channels = op.x.shape()[1];
  c.reads("x", op.x, kModel, {n, channels});
  c.writes("dx", op.dx, kModel, {n, channels});
  c.reads("dy", op.dy, kModel, {n, channels});
  c.reads("weight", op.weight, kModel, {channels});
  c.reads("mean", op.mean, kFloat32, {n});
  c.reads("inverse_std", op.inverse_std, kFloat32, {n});
  c.may_read("residual", op.residual, kModel, {n, channels});
  c.may_alias("dx", "dy");
  c.may_alias("dx", "residual");
}

void check_shapes(const LayerNormWeightGradient& op, Types types) {
  ShapeChecker c("LayerNormWeightGradient", types);
  const auto n = c.shape_of("x", op.x, 2)[0], channels = op.x.shape()[1];
  c.reads("x", op.x, kModel, {n, channels});
  c.reads("dy", op.dy, kModel, {n, channels});
  c.reads("mean", op.mean, kFloat32, {n});
  c.reads("inverse_std", op.inverse_std, kFloat32, {n});
  c.writes("dweight", op.dweight, kFloat32, {channels});
  c.writes("dbias", op.dbias, kFloat32, {channels});
}

void check_shapes(const QkNorm& op, Types types) {
  ShapeChecker c("QkNorm", types);
  const auto n = c.shape_of("x", op.x, 2)[0];
  const auto h = c.heads("x", op.x.shape(), op.q_heads, op.kv_heads);
  c.reads("x", op.x, kModel, {n, h.columns});
  c.writes("y", op.y, kModel, {n, h.columns});
  c.reads("q_weight", op.q_weight, kModel, {h.size});
  c.reads("k_weight", op.k_weight, kModel, {h.size});
  c.writes("inverse_rms", op.inverse_rms, kFloat32, {n, h.q + h.kv});
  c.require(op.epsilon >= 0, "epsilon >= 0", op.epsilon);
}

void check_shapes(const QkNormInputGradient& op, Types types) {
  ShapeChecker c("QkNormInputGradient", types);
  const auto n = c.shape_of("x", op.x, 2)[0];
  const auto h = c.heads("x", op.x.shape(), op.q_heads, op.kv_heads);
  c.reads("x", op.x, kModel, {n, h.columns});
  c.writes("dx", op.dx, kModel, {n, h.columns});
  c.reads("dy", op.dy, kModel, {n, h.columns});
  c.reads("q_weight", op.q_weight, kModel, {h.size});
  c.reads("k_weight", op.k_weight, kModel, {h.size});
  c.reads("inverse_rms", op.inverse_rms, kFloat32, {n, h.q + h.kv});
  c.may_alias("dx", "dy");
}

void check_shapes(const QkNormWeightGradient& op, Types types) {
  ShapeChecker c("QkNormWeightGradient", types);
  const auto n = c.shape_of("x", op.x, 2)[0];
  const auto h = c.heads("x", op.x.shape(), op.q_heads, op.kv_heads);
  c.reads("x", op.x, kModel, {n, h.columns});
  c.reads("dy", op.dy, kModel, {n, h.columns});
  c.reads("inverse_rms", op.inverse_rms, kFloat32, {n, h.q + h.kv});
  c.writes("dq_weight", op.dq_weight, kFloat32, {h.size});
  c.writes("dk_weight", op.dk_weight, kFloat32, {h.size});
}

}  // namespace troupe::kernels
