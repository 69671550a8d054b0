// The safetensors file format: what Hugging Face tools read and write, and the shards of our checkpoints.
//
//   u64 LE N | N bytes of JSON, '{' first, spaces last, 8 + N a multiple of 8 | data
//   {"__metadata__": {"k": "v"}, "name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [begin, end]}, ..}
//
// Offsets count from the start of the data. Row-major, little-endian, no holes.
//
// Threads: writer one; reader any, const. Both block on the disk: for a storage stream.
// Errors of reading name the file, the fault by the reference library's word (InvalidOffset, ..) and the
// tensor: kDataLoss where the file is cut short or longer than it says, kInvalidArgument where the header is
// no such header. Limits: header 100,000,000 bytes (the format's), rank 64, sizes 64-bit. Invariants: our
// bytes are the reference writer's (Safetensors.WritesTheBytesOfTheReference); no input crashes the reader
// (Safetensors.RefusesEveryPrefix, Safetensors.SurvivesFlippedAndRandomHeaders).
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "models/checkpoint/disk.h"
#include "models/checkpoint/element_type.h"
#include "models/checkpoint/input_file.h"
#include "models/checkpoint/slice.h"
#include "runtime/base/status.h"

namespace troupe::checkpoint {

struct TensorEntry {
  std::string name;
  ElementType type = ElementType::kF32;
  Shape shape;
  std::int64_t begin_bytes = 0;  // within the data
  std::int64_t end_bytes = 0;
};

using FileMetadata = std::map<std::string, std::string>;

struct SafetensorsHeader {
  std::vector<TensorEntry> tensors;  // by offset
  FileMetadata metadata;
};

// The data follows the declared tensors without gaps; append() takes it in any pieces.
class SafetensorsWriter {
 public:
  // Sorts the tensors (widest type first, then by name), gives them their offsets, writes the header.
  // kInvalidArgument: a name twice, not UTF-8, or reserved; a shape of no size in bytes.
  static StatusOr<SafetensorsWriter> create(const Disk& disk, const std::string& path,
                                            std::vector<TensorEntry> tensors,
                                            const FileMetadata& metadata = {});

  // In the order in which data must come.
  const std::vector<TensorEntry>& tensors() const { return tensors_; }
  std::int64_t data_begin_bytes() const { return data_begin_bytes_; }  // within the file

  Status append(std::span<const std::byte> bytes);  // beyond what was declared: a bug
  StatusOr<WrittenFile> close_durably();            // before all came: a bug

 private:
  SafetensorsWriter(OutputFile file, std::vector<TensorEntry> tensors, std::int64_t data_begin_bytes)
      : file_(std::move(file)), tensors_(std::move(tensors)), data_begin_bytes_(data_begin_bytes) {}
  OutputFile file_;
  std::vector<TensorEntry> tensors_;
  std::int64_t data_begin_bytes_;
};

class SafetensorsReader {
 public:
  static StatusOr<SafetensorsReader> open(const std::string& path);

  const std::string& path() const { return file_.path(); }
  const std::vector<TensorEntry>& tensors() const { return header_.tensors; }
  const FileMetadata& metadata() const { return header_.metadata; }
  const TensorEntry* find(const std::string& name) const;  // null: not here
  std::int64_t data_begin_bytes() const { return data_begin_bytes_; }
  // Bytes [offset, offset + into.size()) of the tensor; a range beyond its end is kInvalidArgument.
  Status read(const TensorEntry& tensor, std::int64_t offset_bytes, std::span<std::byte> into) const;

 private:
  SafetensorsReader(InputFile file, SafetensorsHeader header, std::int64_t data_begin_bytes);
  InputFile file_;
  SafetensorsHeader header_;
  std::map<std::string, std::size_t, std::less<>> by_name_;
  std::int64_t data_begin_bytes_;
};

// The JSON between length and data, checked against the number of bytes that follow it. `file` is for
// messages.
StatusOr<SafetensorsHeader> parse_safetensors_header(const std::string& file, std::string_view json,
                                                     std::int64_t data_bytes);

}  // namespace troupe::checkpoint
