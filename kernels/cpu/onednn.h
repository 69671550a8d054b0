// oneDNN, called by each member of our team for its own part of a product.
//
// fp32 goes through dnnl_sgemm. bf16 goes through matmul primitives, kept per thread by shape: the steady
// state creates none. Threads: as gemm.h. Owns: per thread an engine, a stream and at most kPrimitives
// primitives, the least recently used goes first.
#pragma once

#include "runtime/device/team.h"

namespace troupe::kernels::cpu {

struct Gemm;
struct GemmKernels;

// Whether oneDNN has a fast bf16 product on this CPU (AVX-512 bf16 or AMX): where it has none it refuses, or
// is a slow reference.
bool onednn_multiplies_bf16();

void gemm_by_onednn(const GemmKernels& kernels, device::ThreadTeam& team, const Gemm& product);
// The primitives' way for either type: for tests on CPUs without bf16.
void gemm_by_primitives(const GemmKernels& kernels, device::ThreadTeam& team, const Gemm& product);

}  // namespace troupe::kernels::cpu
