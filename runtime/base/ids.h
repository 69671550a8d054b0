// Ids are types, never bare ints: a Rank cannot be passed where a StageIndex is asked.
#pragma once

#include <compare>
#include <cstdint>
#include <ostream>

namespace troupe {

template <class Tag, class Integer = std::int32_t>
struct Id {
  Integer value{};

  constexpr Id() = default;
  constexpr explicit Id(Integer v) : value(v) {}
  friend constexpr auto operator<=>(const Id&, const Id&) = default;
  friend std::ostream& operator<<(std::ostream& out, const Id& id) { return out << id.value; }
};

using Rank = Id<struct RankTag>;                           // a process
using StepId = Id<struct StepTag, std::int64_t>;           // optimizer step, 1 is the first
using MicroBatchId = Id<struct MicroBatchTag>;             // index within a step, 0 is the first
using StageIndex = Id<struct StageTag>;                    // pipeline stage, 0 holds the embedding
using BlockIndex = Id<struct BlockTag>;                    // 0 embedding, 1..L transformer blocks, L + 1 head
using SampleId = Id<struct SampleTag, std::int64_t>;       // position in the training order, counted from the run's start

}  // namespace troupe
