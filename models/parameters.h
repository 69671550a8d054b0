// The parameters of one block: their Hugging Face names, and where each lies in the block's flat buffer.
//
// A block keeps five flat buffers of the same layout (master, two moments, gradient, and the weights it computes with). Parameters
// that are read by one matrix product (q, k, v; gate, up) lie side by side, so a Role is a view over several of them. A parameter
// starts at a multiple of 16 elements.
#pragma once

#include <string>
#include <vector>

#include "models/model_config.h"
#include "runtime/device/tensor.h"

namespace troupe::models {

// What a block asks for when it computes. Shapes as in kernels/*.h; [O, I] or [I, O] by the model's weight layout.
enum class Role {
  kTokenEmbedding,     // [Vp, C]
  kPositionEmbedding,  // [P, C]
  kNorm1, kNorm1Bias,  // [C]; the head's final norm too
  kQkv, kQkvBias,      // [(H + 2G) D, C]
  kQNorm, kKNorm,      // [D]
  kOut, kOutBias,      // [C, H D]
  kNorm2, kNorm2Bias,
  kUp, kUpBias,        // [I or 2I, C]
  kDown, kDownBias,    // [C, I]
  kHead,               // [Vp, C], absent when tied
};

enum class Init { kZero, kOne, kNormal, kResidualNormal };  // the last: std / sqrt(2 L), for what adds to the residual stream

struct ParameterSpec {
  std::string name;                // Hugging Face's
  device::Shape shape;             // as stored, padded vocabulary included
  std::int64_t exported_rows = 0;  // rows of the first dim that exist outside: V of a padded Vp
  std::int64_t offset = 0;         // elements from the start of the flat buffer
  Init init = Init::kNormal;
  bool decays = true;              // weight decay: matrices yes, vectors no
  std::int32_t index = 0;          // over the whole model, keys the initial random numbers

  device::Shape exported_shape() const;
};

struct BlockLayout {
  struct Group {
    Role role;
    std::int64_t offset;
    device::Shape shape;
  };

  BlockIndex block;
  std::vector<ParameterSpec> parameters;
  std::vector<Group> groups;
  std::int64_t elements = 0;       // of each flat buffer
  std::int64_t parameter_count = 0;  // without padding

  const Group* group(Role role) const;
};

BlockLayout block_layout(const ModelConfig& config, BlockIndex block);
// Trained scalars over all blocks, a tied embedding once, padding rows not counted.
std::int64_t parameter_count(const ModelConfig& config);

// A flat buffer seen through its layout: tensors[Role::kQkv]; an empty view where the block has no such parameter.
template <class View>
class BlockTensors {
 public:
  BlockTensors() = default;
  BlockTensors(const BlockLayout& layout, View flat) : layout_(&layout), flat_(flat) {}

  View operator[](Role role) const {
    const auto* group = layout_->group(role);
    return group ? at(group->offset, group->shape) : View();
  }
  View operator[](const ParameterSpec& parameter) const { return at(parameter.offset, parameter.shape); }

 private:
  View at(std::int64_t offset, const device::Shape& shape) const {
    return flat_.rows(offset, offset + shape.elements()).reshaped(shape);
  }
  const BlockLayout* layout_ = nullptr;
  View flat_;
};

using BlockWeights = BlockTensors<device::ConstTensorView>;
using BlockGradients = BlockTensors<device::TensorView>;

// Writes the initial values of the block's elements from `begin` on into `master` (fp32 or fp64), as many as it holds. Every value depends
// on its own place only, so parts of a block are made apart. Host code, start-up only: not a kernel.
void initialize(const ModelConfig& config, const BlockLayout& layout, std::uint64_t seed, device::TensorView master, std::int64_t begin = 0);

}  // namespace troupe::models
