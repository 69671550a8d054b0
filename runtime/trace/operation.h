// What a stream works at, as it is called for whoever looks inside: "forward block 3" of a step and a micro-batch.
#pragma once

#include <cstdint>

namespace troupe::trace {

// A text that is part of the program, so that it can be kept by its address alone.
class FixedText {
 public:
  FixedText() = default;
  consteval FixedText(const char* text) : text_(text) {}  // NOLINT: literals are passed as they are
  const char* text() const { return text_; }

 private:
  const char* text_ = "";
};

// -1: there is none.
struct Operation {
  FixedText what{};
  std::int32_t block = -1;
  std::int64_t step = -1;
  std::int32_t micro_batch = -1;
};

}  // namespace troupe::trace
