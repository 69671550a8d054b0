#include "kernels/elementwise.h"

#include "kernels/ref/element.h"
#include "kernels/ref/run.h"

namespace troupe::kernels::ref {

void run(const Fill& op) {
  for (std::int64_t i = 0; i < op.y.elements(); ++i) store(op.y, i, op.value);
}

void run(const Cast& op) {
  for (std::int64_t i = 0; i < op.y.elements(); ++i) store(op.y, i, load(op.x, i));
}

void run(const Add& op) {
  for (std::int64_t i = 0; i < op.y.elements(); ++i) store(op.y, i, load(op.a, i) + load(op.b, i));
}

}  // namespace troupe::kernels::ref
