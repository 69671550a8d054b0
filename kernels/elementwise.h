// Fill, copy, cast and add.
#pragma once

#include "runtime/device/tensor.h"

namespace troupe::kernels {

struct Fill {
  device::TensorView y;            // any float type
  float value = 0;
};

// y = x, converted; same number of elements. fp32 -> bf16 rounds to nearest even.
struct Cast {
  device::TensorView y;
  device::ConstTensorView x;
};

// y = a + b in fp32, rounded once. Any aliasing.
struct Add {
  device::TensorView y;            // bf16 | fp32
  device::ConstTensorView a;
  device::ConstTensorView b;
};

}  // namespace troupe::kernels
