// All rows of the parity tests, by file.
#pragma once

#include <vector>

#include "tests/parity/kernels/case.h"

namespace troupe::kernels::parity {

std::vector<Case> matmul_cases();
std::vector<Case> norm_cases();
std::vector<Case> qk_cases();  // QkNorm and Rope
std::vector<Case> attention_cases();
std::vector<Case> activation_cases();
std::vector<Case> vocabulary_cases();  // embedding, head
std::vector<Case> elementwise_cases();
std::vector<Case> optimizer_cases();

}  // namespace troupe::kernels::parity
