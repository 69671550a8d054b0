// How control messages travel: the fields of each, in order. Little-endian, floats as bits, strings with their length; never CAF's way.
//
// To let another message travel: its `fields` here, and its type at the end of WireMessages. The order of that list is the number that
// travels; both ends are the same build (comm/join says so before anything else).
//
// Threads: any; writer and reader are values of one call. Owns: nothing; a reader looks into bytes that stay until it is done. Errors: bytes that
// are too few or too many leave good() false and what was read so far is not to be used; a writer cannot fail.
// Limits: kStatusTextBytesMost; a text or list of 2^32 entries. Invariants: LinkTest.BringsEveryMessageAsItWas, Fields.RefuseABitMoreOrLess.
#pragma once

#include <bit>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "actors/protocol.h"

namespace troupe::actors {

template <class... Messages>
struct MessageList {};
using WireMessages = MessageList<OpenStep, StepFed, StepLossMeasured, NormMeasured, StepDecided, ReplicaUpdated, EvaluationMeasured, JobEnded,
                                 StopRequested, SnapshotRequested, WriteShard, ShardWritten, MicroBatchAsked, MicroBatchAssigned,
                                 EvaluationRequested>;

template <class Codec> void fields(Codec& c, OpenStep& m) { c(m.step.value, m.cursor); }
template <class Codec> void fields(Codec& c, StepFed& m) { c(m.step.value, m.waited_ns, m.sample_hash, m.replica, m.pulled); }
template <class Codec> void fields(Codec& c, StepLossMeasured& m) { c(m.step.value, m.total.loss, m.total.tokens, m.replica); }
template <class Codec> void fields(Codec& c, NormMeasured& m) { c(m.step.value, m.block.value, m.squares, m.replica); }
template <class Codec> void fields(Codec& c, StepDecided& m) { c(m.step.value, m.skip, m.update, m.learning_rate, m.gradient_scale); }
template <class Codec> void fields(Codec& c, ReplicaUpdated& m) { c(m.step.value, m.rank.value, m.job); }
template <class Codec> void fields(Codec& c, EvaluationMeasured& m) { c(m.step.value, m.totals, m.replica); }
template <class Codec> void fields(Codec& c, JobEnded& m) { c(m.result); }
template <class Codec> void fields(Codec& c, StopRequested& m) { c(m.reason); }
template <class Codec> void fields(Codec& c, EvaluationRequested& m) { c(m.step.value, m.begin, m.end); }

template <class Codec> void fields(Codec& c, SnapshotRequested& m) { c(m.step.value); }
template <class Codec> void fields(Codec& c, WriteShard& m) { c(m.step.value); }
template <class Codec> void fields(Codec& c, ShardWritten& m) { c(m.step.value, m.rank.value, m.result); }
template <class Codec> void fields(Codec& c, MicroBatchAsked& m) { c(m.step.value, m.next, m.finished, m.open, m.pace_ns, m.replica); }
template <class Codec> void fields(Codec& c, MicroBatchAssigned& m) { c(m.step.value, m.micro_batch, m.last); }

// A message without pointers, a user's for instance, needs no fields of its own: it travels as it lies in memory.
template <class Codec, class T>
  requires std::is_trivially_copyable_v<T>
void fields(Codec& c, T& m) { c.plain(m); }

// What goes along edges to another process (far_edge.h): the fields here, the tensor, if there is one, as the frame's bulk.
template <class Codec> void fields(Codec& c, Activation& m) { c(m.step.value, m.micro_batch.value); }
template <class Codec> void fields(Codec& c, Gradient& m) { c(m.step.value, m.micro_batch.value); }
inline device::Tensor& tensor_of(Activation& m) { return m.x; }
inline device::Tensor& tensor_of(Gradient& m) { return m.dx; }
template <class T>
concept CarriesTensor = requires(T& message) { tensor_of(message).view(); message.ready; };

// A longer text of a status is cut: its beginning, and that there was more.
inline constexpr std::size_t kStatusTextBytesMost = 2048;

static_assert(std::endian::native == std::endian::little, "numbers travel as they lie in memory");

class FieldWriter {
 public:
  explicit FieldWriter(std::vector<std::byte>& out) : out_(out) {}
  template <class... T>
  void operator()(const T&... values) {
    (put(values), ...);
  }
  template <class T>
  void plain(const T& value) {
    bytes(&value, sizeof value);
  }

 private:
  void bytes(const void* data, std::size_t size) {
    const auto* from = static_cast<const std::byte*>(data);
    out_.insert(out_.end(), from, from + size);
  }
  template <class T>
    requires std::is_arithmetic_v<T>
  void put(const T& value) {
    bytes(&value, sizeof value);
  }
  void put(const std::string& text) {
    put(static_cast<std::uint32_t>(text.size()));
    bytes(text.data(), text.size());
  }
  void put(const LossTotal& total) { (*this)(total.loss, total.tokens); }
  void put(const Status& status) {
    put(static_cast<std::int32_t>(status.code()));
    std::string text(status.message());
    if (text.size() > kStatusTextBytesMost) {
      constexpr std::string_view kMore = " ...";
      text.resize(kStatusTextBytesMost - kMore.size());
      text += kMore;
    }
    put(text);
  }
  template <class T>
    requires std::is_trivially_copyable_v<T>
  void put(const std::vector<T>& values) {
    put(static_cast<std::uint32_t>(values.size()));
    for (const T& value : values) put(value);
  }
  std::vector<std::byte>& out_;
};

// What does not fit the bytes leaves the message as it is and good() false.
class FieldReader {
 public:
  explicit FieldReader(std::span<const std::byte> in) : in_(in) {}
  template <class... T>
  void operator()(T&... values) {
    (take(values), ...);
  }
  template <class T>
  void plain(T& value) {
    bytes(&value, sizeof value);
  }
  // Everything was there and nothing is left.
  bool good() const { return good_ && in_.empty(); }

 private:
  bool bytes(void* data, std::size_t size) {
    good_ = good_ && size <= in_.size();
    if (!good_) return false;
    if (size > 0) std::memcpy(data, in_.data(), size);
    in_ = in_.subspan(size);
    return true;
  }
  template <class T>
    requires std::is_arithmetic_v<T>
  void take(T& value) {
    if constexpr (std::is_same_v<T, bool>) {
      std::uint8_t byte = 0;
      bytes(&byte, 1);
      value = byte != 0;
    } else {
      bytes(&value, sizeof value);
    }
  }
  void take(std::string& text) {
    std::uint32_t size = 0;
    take(size);
    if (size > in_.size()) {
      good_ = false;
      return;
    }
    text.resize(size);
    bytes(text.data(), size);
  }
  void take(LossTotal& total) { (*this)(total.loss, total.tokens); }
  void take(Status& status) {
    std::int32_t code = 0;
    std::string text;
    take(code);
    take(text);
    if (good_) status = Status(static_cast<absl::StatusCode>(code), text);
  }
  template <class T>
    requires std::is_trivially_copyable_v<T>
  void take(std::vector<T>& values) {
    std::uint32_t size = 0;
    take(size);
    if (size > in_.size() / sizeof(T)) {
      good_ = false;
      return;
    }
    values.resize(size);
    for (T& value : values) take(value);
  }
  std::span<const std::byte> in_;
  bool good_ = true;
};

}  // namespace troupe::actors
