// Hostile files: whatever the bytes, opening and reading gives an error or valid tokens. Run under asan and
// ubsan too.
#include <gtest/gtest.h>

#include "models/data/corpus.h"
#include "models/data/inspect.h"
#include "runtime/base/rng.h"
#include "tests/unit/data/corpus_files.h"

namespace troupe::data {
namespace {

constexpr std::int32_t kVocab = 300;

// Opens and reads through; returns whether it opened.
bool survives(const std::string& path) {
  const auto corpus = open_corpus(path, {.vocab_size = kVocab});
  if (!corpus.ok()) {
    EXPECT_FALSE(corpus.status().message().empty());
    return false;
  }
  EXPECT_GT((*corpus)->tokens(), 0);
  std::vector<std::int32_t> tokens(static_cast<std::size_t>((*corpus)->tokens()));
  if ((*corpus)->read(0, tokens).ok()) {
    for (const auto token : tokens) EXPECT_TRUE(token >= 0 && token < kVocab) << token;
    EXPECT_TRUE(summarize(**corpus).ok() || (*corpus)->facts().content_xxh3);
  }
  for (std::int64_t at = 0; at < (*corpus)->tokens(); ++at) {
    const auto begin = (*corpus)->next_document_begin(at, (*corpus)->tokens());
    EXPECT_TRUE(begin >= at && begin <= (*corpus)->tokens());
  }
  return true;
}

std::string pair_index() { return IndexFile{.lengths = {3, 1, 4}, .documents = {0, 1, 3}}.bytes(); }

TEST(CorpusFuzz, MegatronFilesCutAtEveryByte) {
  const TempFolder folder;
  const std::string index = pair_index(), tokens = fields<std::uint16_t>({1, 2, 3, 4, 5, 6, 7, 8});
  write_bytes(folder / "a.bin", tokens);
  for (std::size_t size = 0; size <= index.size(); ++size) {
    write_bytes(folder / "a.idx", index.substr(0, size));
    EXPECT_EQ(survives(folder / "a"), size == index.size()) << "index of " << size;
  }
  for (std::size_t size = 0; size < tokens.size(); ++size) {
    write_bytes(folder / "a.bin", tokens.substr(0, size));
    EXPECT_FALSE(survives(folder / "a")) << "tokens of " << size;
  }
}

TEST(CorpusFuzz, MegatronIndexWithEveryByteChanged) {
  const TempFolder folder;
  const std::string index = pair_index();
  write_bytes(folder / "a.bin", fields<std::uint16_t>({1, 2, 3, 4, 5, 6, 7, 8}));
  for (std::size_t at = 0; at < index.size(); ++at) {
    for (const int change : {1, 0x80, 0xff, 2, 0x10}) {
      std::string bytes = index;
      bytes[at] = static_cast<char>(bytes[at] ^ change);
      write_bytes(folder / "a.idx", bytes);
      const bool opened = survives(folder / "a");
      if (at < 17) {  // magic and version have one right value
        EXPECT_FALSE(opened) << "byte " << at;
      }
    }
  }
}

TEST(CorpusFuzz, MegatronTablesWithRandomBytesInThem) {
  const TempFolder folder;
  const RandomStream random({.seed = 5});
  std::uint64_t draw = 0;
  int opened = 0;
  constexpr int kRounds = 600;
  for (int round = 0; round < kRounds; ++round) {
    IndexFile index{.documents = {0, 1, 3}};
    std::string tokens;
    for (int i = 0; i < 3; ++i) {
      index.lengths.push_back(static_cast<std::int32_t>(1 + random.at(draw++) % 4));
      for (int t = 0; t < index.lengths.back(); ++t) tokens += field<std::uint16_t>(static_cast<std::int64_t>(random.at(draw++) % kVocab));
    }
    std::string bytes = index.bytes();
    for (int change = 0; change < round % 4; ++change) {
      const auto at = 34 + random.at(draw++) % (bytes.size() - 34);
      bytes[at] = static_cast<char>(random.at(draw++) % (change == 0 ? 5 : 256));
    }
    write_bytes(folder / "a.idx", bytes);
    write_bytes(folder / "a.bin", tokens);
    const bool ok = survives(folder / "a");
    EXPECT_TRUE(ok || round % 4 > 0) << "nothing was changed";
    opened += ok;
  }
  EXPECT_LT(opened, kRounds / 2);  // a change is found, unless it put what was there
}

TEST(CorpusFuzz, LlmcFilesCutAtEveryByteAndChanged) {
  const TempFolder folder;
  const std::string good = llmc_gpt2({1, 2, 50256, 3, 299});
  for (std::size_t size = 0; size <= good.size(); ++size) {
    write_bytes(folder / "a.bin", good.substr(0, size));
    EXPECT_EQ(survives(folder / "a.bin"), size == good.size()) << size;
  }
  for (std::size_t at = 0; at < good.size(); at = at == 15 ? 1020 : at + 1) {
    for (int change = 1; change < 256; change += 7) {
      std::string bytes = good;
      bytes[at] = static_cast<char>(bytes[at] ^ change);
      write_bytes(folder / "a.bin", bytes);
      survives(folder / "a.bin");
    }
  }
}

TEST(CorpusFuzz, SidecarsOfRandomBytes) {
  const TempFolder folder;
  write_pair(folder / "a", {{1, 2}, {3}});
  const std::string good =
      "{\"format\": \"troupe-corpus\", \"version\": 1, \"tokenizer\": \"byte\", \"vocab_size\": 257, "
      "\"end_of_document\": 256, "
      "\"documents\": 2, \"tokens\": 3, \"text_bytes\": 1, \"sources\": 1, \"xxh3\": \"0000000000000001\"}";
  for (std::size_t size = 0; size <= good.size(); ++size) {
    write_bytes(folder / "a.json", good.substr(0, size));
    EXPECT_EQ(survives(folder / "a"), size == good.size()) << size;
  }
  const RandomStream random({.seed = 6});
  for (std::uint64_t round = 0; round < 1000; ++round) {
    std::string bytes = good;
    bytes[random.at(2 * round) % bytes.size()] = static_cast<char>(random.at(2 * round + 1));
    write_bytes(folder / "a.json", bytes);
    survives(folder / "a");
  }
}

}  // namespace
}  // namespace troupe::data
