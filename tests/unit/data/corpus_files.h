// Corpus files for tests, written byte by byte from the formats' description, not by the code under test.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "models/data/corpus.h"

namespace troupe::data {

// A fresh folder, removed at the end.
class TempFolder {
 public:
  TempFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "troupe_data_XXXXXX").string();
    path_ = mkdtemp(pattern.data());
  }
  ~TempFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  std::string operator/(const std::string& name) const { return path_ + "/" + name; }
  const std::string& path() const { return path_; }
  std::vector<std::string> names() const {
    std::vector<std::string> found;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(path_)) {
      if (!entry.is_directory()) found.push_back(std::filesystem::relative(entry.path(), path_).string());
    }
    std::sort(found.begin(), found.end());
    return found;
  }

 private:
  std::string path_;
};

// Always a new file: a mapping of the one before stays whole, and ext4 does not flush it as it does a
// shortened one.
inline void write_bytes(const std::string& path, const std::string& bytes) {
  std::filesystem::remove(path);
  std::ofstream(path, std::ios::binary) << bytes;
}

// What open_corpus has against these files; empty if nothing.
inline std::string refusal(const std::string& path, const CorpusOptions& options = {}) {
  return std::string(open_corpus(path, options).status().message());
}

inline std::string read_bytes(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// `value` as sizeof(T) little-endian bytes.
template <class T>
std::string field(std::int64_t value) {
  std::string bytes;
  for (std::size_t i = 0; i < sizeof(T); ++i) bytes.push_back(static_cast<char>(value >> (8 * i)));
  return bytes;
}

template <class T>
std::string fields(const std::vector<std::int64_t>& values) {
  std::string bytes;
  for (const auto value : values) bytes += field<T>(value);
  return bytes;
}

// A Megatron .idx. Offsets follow from the lengths.
struct IndexFile {
  std::string magic = std::string("MMIDIDX\0\0", 9);
  std::int64_t version = 1;
  int type_code = 8;
  std::int64_t token_bytes = 2;
  std::vector<std::int64_t> lengths{};
  std::vector<std::int64_t> documents{};  // default: a document per sequence

  std::string bytes() const {
    std::vector<std::int64_t> pointers, ends = documents;
    std::int64_t at = 0;
    for (const auto length : lengths) {
      pointers.push_back(at);
      at += length * token_bytes;
    }
    if (ends.empty()) {
      for (std::size_t i = 0; i <= lengths.size(); ++i) ends.push_back(static_cast<std::int64_t>(i));
    }
    return magic + field<std::uint64_t>(version) + field<std::uint8_t>(type_code) +
           field<std::uint64_t>(static_cast<std::int64_t>(lengths.size())) +
           field<std::uint64_t>(static_cast<std::int64_t>(ends.size())) + fields<std::int32_t>(lengths) +
           fields<std::int64_t>(pointers) + fields<std::int64_t>(ends);
  }
};

// A pair of uint16 tokens, a document per inner list.
inline void write_pair(const std::string& prefix, const std::vector<std::vector<std::int64_t>>& documents) {
  IndexFile index;
  std::string tokens;
  for (const auto& document : documents) {
    index.lengths.push_back(static_cast<std::int64_t>(document.size()));
    tokens += fields<std::uint16_t>(document);
  }
  write_bytes(prefix + ".idx", index.bytes());
  write_bytes(prefix + ".bin", tokens);
}

inline std::string llmc_header(std::int64_t magic, std::int64_t version, std::int64_t tokens) {
  std::vector<std::int64_t> header(256);
  header[0] = magic;
  header[1] = version;
  header[2] = tokens;
  return fields<std::int32_t>(header);
}

inline std::string llmc_gpt2(const std::vector<std::int64_t>& tokens) {
  return llmc_header(20240520, 1, static_cast<std::int64_t>(tokens.size())) + fields<std::uint16_t>(tokens);
}

inline std::string llmc_llama3(const std::vector<std::int64_t>& tokens) {
  return llmc_header(20240801, 7, static_cast<std::int64_t>(tokens.size())) + fields<std::uint32_t>(tokens);
}

}  // namespace troupe::data
