#include "models/checkpoint/safetensors.h"

#include <cstring>
#include <random>

#include "models/checkpoint/hash.h"
#include "tests/unit/checkpoint/sample.h"

namespace troupe::checkpoint {
namespace {

using testing::HasSubstr;

// make_golden.py made it with the reference library.
constexpr const char* kGolden = "tests/unit/checkpoint/golden.safetensors";

template <class T>
std::string raw(std::initializer_list<T> values) {
  return std::string(reinterpret_cast<const char*>(values.begin()), values.size() * sizeof(T));
}

struct Golden {
  TensorEntry entry;
  std::string data;
};

std::vector<Golden> golden_tensors() {
  return {
      {{"model.norm.weight", ElementType::kBF16, {3}}, raw<std::uint16_t>({0x3f80, 0xc000, 0x3f00})},
      {{"model.embed_tokens.weight", ElementType::kF32, {2, 3}}, raw<float>({0, .25, .5, .75, 1, 1.25})},
      {{"empty", ElementType::kF32, {0, 3}}, ""},
      {{"scalar", ElementType::kI64, {}}, raw<std::int64_t>({-7})},
      {{"größe \"q\"\n", ElementType::kU8, {3}}, raw<std::uint8_t>({1, 2, 255})},
      {{"f64", ElementType::kF64, {1}}, raw<double>({0.1})},
      {{"i32", ElementType::kI32, {1, 2}}, raw<std::int32_t>({5, -5})},
  };
}

std::string with_header(const std::string& json, const std::string& data) {
  const std::uint64_t length = json.size();
  return std::string(reinterpret_cast<const char*>(&length), 8) + json + data;
}

// Reads all that the header promises; a reader that let a bad header pass would fail here.
Status read_all(const SafetensorsReader& reader) {
  for (const TensorEntry& tensor : reader.tensors()) {
    std::vector<std::byte> bytes(static_cast<std::size_t>(tensor.end_bytes - tensor.begin_bytes));
    TROUPE_RETURN_IF_ERROR(reader.read(tensor, 0, bytes));
  }
  return ok();
}

TEST(Safetensors, ReadsAFileOfTheReference) {
  const auto reader = SafetensorsReader::open(kGolden);
  ASSERT_TRUE(reader.ok()) << reader.status();
  EXPECT_EQ(reader->tensors().size(), 7u);
  EXPECT_EQ(reader->metadata(), (FileMetadata{{"format", "pt"}}));
  for (const Golden& golden : golden_tensors()) {
    const TensorEntry* found = reader->find(golden.entry.name);
    ASSERT_NE(found, nullptr) << golden.entry.name;
    EXPECT_EQ(found->type, golden.entry.type);
    EXPECT_EQ(found->shape, golden.entry.shape);
    std::string data(golden.data.size(), '\0');
    ASSERT_TRUE(reader->read(*found, 0, std::as_writable_bytes(std::span(data))).ok());
    EXPECT_EQ(data, golden.data) << golden.entry.name;
  }
  EXPECT_EQ(reader->find("absent"), nullptr);
}

TEST(Safetensors, ReadsARangeAndRefusesOneBeyondTheTensor) {
  const auto reader = SafetensorsReader::open(kGolden);
  ASSERT_TRUE(reader.ok());
  const TensorEntry& tensor = *reader->find("model.embed_tokens.weight");
  float value = 0;
  ASSERT_TRUE(reader->read(tensor, 12, std::as_writable_bytes(std::span(&value, 1))).ok());
  EXPECT_EQ(value, .75f);
  const Status beyond = reader->read(tensor, 21, std::as_writable_bytes(std::span(&value, 1)));
  EXPECT_THAT(text(beyond), HasSubstr("bytes 21 + 4 of 24"));
  EXPECT_FALSE(reader->read(tensor, -1, std::as_writable_bytes(std::span(&value, 1))).ok());
}

TEST(Safetensors, WritesTheBytesOfTheReference) {
  TestFolder folder;
  const Disk disk({}, 5);  // chunks of five bytes: any cut will do
  std::vector<TensorEntry> declared;
  for (const Golden& golden : golden_tensors()) declared.push_back(golden.entry);
  auto writer = SafetensorsWriter::create(disk, folder / "a", declared, {{"format", "pt"}});
  ASSERT_TRUE(writer.ok()) << writer.status();
  std::string data;
  for (const TensorEntry& tensor : writer->tensors()) {
    for (const Golden& golden : golden_tensors()) {
      if (golden.entry.name == tensor.name) data += golden.data;
    }
  }
  for (std::size_t at = 0; at < data.size(); at += 7) {
    const std::string piece = data.substr(at, 7);
    ASSERT_TRUE(writer->append(std::as_bytes(std::span(piece))).ok());
  }
  const auto written = writer->close_durably();
  ASSERT_TRUE(written.ok());
  EXPECT_EQ(contents(folder / "a"), contents(kGolden));
  EXPECT_EQ(written->bytes, static_cast<std::int64_t>(contents(kGolden).size()));
  EXPECT_EQ(written->xxh3_128, hash_of_file(kGolden).value());
}

TEST(Safetensors, WriterRefusesWhatCannotBeDeclared) {
  TestFolder folder;
  const Disk disk;
  const auto refusal = [&](std::vector<TensorEntry> tensors) {
    return text(SafetensorsWriter::create(disk, folder / "a", std::move(tensors)).status());
  };
  EXPECT_THAT(refusal({{"w", ElementType::kF32, {1}}, {"w", ElementType::kU8, {1}}}),
              HasSubstr("\"w\": declared twice"));
  EXPECT_THAT(refusal({{"__metadata__", ElementType::kF32, {1}}}), HasSubstr("reserves"));
  EXPECT_THAT(refusal({{"\xff", ElementType::kF32, {1}}}), HasSubstr("not UTF-8"));
  EXPECT_THAT(refusal({{"w", ElementType::kF32, {-1}}}), HasSubstr("no size"));
  EXPECT_FALSE(std::filesystem::exists(folder / "a"));
}

using SafetensorsDeathTest = testing::Test;
TEST(SafetensorsDeathTest, MoreOrLessDataThanDeclaredIsABug) {
  // A child that began anew would make a folder of its own and die in it.
  testing::FLAGS_gtest_death_test_style = "fast";
  TestFolder folder;
  const Disk disk;
  const std::byte bytes[5]{};
  auto writer = SafetensorsWriter::create(disk, folder / "a", {{"w", ElementType::kF32, {1}}});
  ASSERT_TRUE(writer.ok());
  EXPECT_DEATH((void)writer->append(bytes), "5 bytes at 0 of 4");
  EXPECT_DEATH((void)writer->close_durably(), "0 of 4 bytes came");
}

TEST(Safetensors, RefusesEveryPrefix) {
  TestFolder folder;
  const std::string all = contents(kGolden);
  for (std::size_t length = 0; length < all.size(); ++length) {
    put(folder / "cut", all.substr(0, length));
    const Status status = SafetensorsReader::open(folder / "cut").status();
    EXPECT_TRUE(absl::IsDataLoss(status)) << length << " " << status;
    EXPECT_THAT(text(status), HasSubstr(folder / "cut"));
  }
}

TEST(Safetensors, NamesTheFaultByTheWordOfTheReference) {
  TestFolder folder;
  const std::string tensor = R"("dtype":"F32","shape":[1],"data_offsets":[0,4])";
  struct Case {
    std::string header;
    std::size_t data_bytes;
    std::string word, detail;
  };
  const std::vector<Case> cases{
      {"{\"a\xff\":{}}", 0, "InvalidHeader", "UTF-8"},
      {"[]", 0, "InvalidHeaderStart", "'{'"},
      {" {}", 0, "InvalidHeaderStart", "'{'"},
      {"", 0, "InvalidHeaderStart", "'{'"},
      {"{", 0, "InvalidHeaderDeserialization", "line 1"},
      {"{}x", 0, "InvalidHeaderDeserialization", "column 3"},
      {R"({"w":5})", 0, "InvalidHeaderDeserialization", "\"w\": must be an object"},
      {R"({"w":{"dtype":"F32","shape":[1]}})", 4, "InvalidHeaderDeserialization", "data_offsets"},
      {R"({"w":{"dtype":"F33","shape":[1],"data_offsets":[0,4]}})", 4, "InvalidHeaderDeserialization", "F33"},
      {R"({"w":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})", 4, "InvalidHeaderDeserialization",
       "[-1]"},
      {R"({"w":{"dtype":"F32","shape":[1.0],"data_offsets":[0,4]}})", 4, "InvalidHeaderDeserialization",
       "[1.0]"},
      {R"({"w":{"dtype":"F32","shape":1,"data_offsets":[0,4]}})", 4, "InvalidHeaderDeserialization", "shape"},
      {R"({"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4,4]}})", 4, "InvalidHeaderDeserialization",
       "two whole"},
      {R"({"w":{"dtype":"F32","shape":[1],"data_offsets":[0,99999999999999999999]}})", 4,
       "InvalidHeaderDeserialization", "data_offsets"},
      {"{\"w\":{" + tensor + "},\"w\":{" + tensor + "}}", 4, "InvalidHeaderDeserialization",
       "\"w\" appears twice"},
      {R"({"__metadata__":{"a":1}})", 0, "InvalidHeaderDeserialization", "\"a\" must be a string"},
      {R"({"__metadata__":[]})", 0, "InvalidHeaderDeserialization", "__metadata__"},
      {R"({"w":)" + std::string(1000, '[') + std::string(1000, ']') + "}", 0, "InvalidHeaderDeserialization",
       "deeper"},
      {R"({"w":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})", 8, "InvalidOffset",
       "begin at 0"},                                                                    // hole
      {"{\"v\":{" + tensor + "},\"w\":{" + tensor + "}}", 8, "InvalidOffset", "\"w\""},  // overlap
      {R"({"w":{"dtype":"F32","shape":[1],"data_offsets":[0,0]}})", 0, "TensorInvalidInfo", "takes 4 bytes"},
      {R"({"w":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", 4, "TensorInvalidInfo", "takes 8 bytes"},
      {R"({"w":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,4]}})", 4,
       "ValidationOverflow", "\"w\""},
      {R"({"w":{"dtype":"F64","shape":[2305843009213693952],"data_offsets":[0,4]}})", 4, "ValidationOverflow",
       "\"w\""},
      {R"({"w":{"dtype":"F4","shape":[3],"data_offsets":[0,2]}})", 2, "MisalignedSlice", "\"w\""},
      {"{\"w\":{" + tensor + "}}", 3, "MetadataIncompleteBuffer", "4 bytes"},
      {"{\"w\":{" + tensor + "}}", 5, "MetadataIncompleteBuffer", "holds 5"},
  };
  for (const Case& c : cases) {
    put(folder / "bad", with_header(c.header, std::string(c.data_bytes, 'd')));
    const Status status = SafetensorsReader::open(folder / "bad").status();
    EXPECT_THAT(text(status), HasSubstr((folder / "bad") + ": " + c.word + ": ")) << c.header.substr(0, 80);
    EXPECT_THAT(text(status), HasSubstr(c.detail)) << c.header.substr(0, 80);
  }
  put(folder / "bad", std::string("\x01\xe1\xf5\x05\0\0\0\0", 8));  // 100,000,001
  EXPECT_THAT(text(SafetensorsReader::open(folder / "bad").status()), HasSubstr("HeaderTooLarge: 100000001"));
  put(folder / "bad", std::string(8, '\xff') + "{}");
  EXPECT_THAT(text(SafetensorsReader::open(folder / "bad").status()), HasSubstr("HeaderTooLarge"));
  put(folder / "bad", std::string("\x03\0\0\0\0\0\0\0{}", 10));
  EXPECT_THAT(text(SafetensorsReader::open(folder / "bad").status()), HasSubstr("InvalidHeaderLength"));
  put(folder / "bad", "1234567");
  EXPECT_THAT(text(SafetensorsReader::open(folder / "bad").status()), HasSubstr("HeaderTooSmall"));
}

TEST(Safetensors, TakesWhatTheFormatAllows) {
  TestFolder folder;
  for (
      const std::string header :
      {R"({})", "{}   ", R"({"w":{"dtype":"F4","shape":[4],"data_offsets":[0,2]}})",
       R"({"e":{"dtype":"F8_E4M3","shape":[0],"data_offsets":[2,2]},"w":{"dtype":"U16","shape":[],"data_offsets":[0,2]}})"}) {
    const std::size_t bytes = header.find('w') == std::string::npos ? 0 : 2;
    put(folder / "good", with_header(header, std::string(bytes, 'd')));
    const auto reader = SafetensorsReader::open(folder / "good");
    ASSERT_TRUE(reader.ok()) << reader.status();
    EXPECT_TRUE(read_all(*reader).ok());
  }
}

TEST(Safetensors, RefusesFoldersAndAbsentFiles) {
  TestFolder folder;
  EXPECT_TRUE(absl::IsNotFound(SafetensorsReader::open(folder / "absent").status()));
  EXPECT_TRUE(absl::IsInvalidArgument(SafetensorsReader::open(folder.path()).status()));
}

TEST(Safetensors, SurvivesFlippedAndRandomHeaders) {
  TestFolder folder;
  const std::string all = contents(kGolden);
  const std::size_t header_end = all.size() - 57;
  for (std::size_t at = 0; at < header_end; ++at) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string flipped = all;
      flipped[at] = static_cast<char>(flipped[at] ^ (1 << bit));
      put(folder / "f", flipped);
      const auto reader = SafetensorsReader::open(folder / "f");
      EXPECT_TRUE(!reader.ok() || read_all(*reader).ok()) << at << " " << bit;
    }
  }
  const std::vector<std::string> tokens{"{",
                                        "}",
                                        "[",
                                        "]",
                                        ",",
                                        ":",
                                        "\"w\"",
                                        "\"dtype\"",
                                        "\"F32\"",
                                        "\"shape\"",
                                        "\"data_offsets\"",
                                        "0",
                                        "4",
                                        "-1",
                                        "1e9",
                                        "18446744073709551615",
                                        "null",
                                        "true",
                                        "\"__metadata__\"",
                                        " ",
                                        "\"\\ud800\"",
                                        "{\"dtype\":\"F32\",\"shape\":",
                                        "[0,4]",
                                        "\"data_offsets\":[0,4]}"};
  std::mt19937 random(1);
  for (int round = 0; round < 20000; ++round) {
    std::string json = "{";
    const auto length = random() % 24;
    for (std::uint32_t i = 0; i < length; ++i) json += tokens[random() % tokens.size()];
    (void)parse_safetensors_header("f", json, 4);
    std::string bytes(random() % 40, '\0');
    for (char& c : bytes) c = static_cast<char>(random());
    (void)parse_safetensors_header("f", bytes, 4);
  }
}

// CASES T11. Sparse: takes no room.
TEST(Safetensors, ReadsBeyondFourGibibytes) {
  TestFolder folder;
  const std::int64_t gap = std::int64_t{5} << 30;
  const std::string header = "{\"gap\":{\"dtype\":\"U8\",\"shape\":[" + std::to_string(gap) +
                             "],\"data_offsets\":[0," + std::to_string(gap) +
                             "]},\"w\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[" +
                             std::to_string(gap) + "," + std::to_string(gap + 3) + "]}}";
  put(folder / "large", with_header(header, ""));
  std::filesystem::resize_file(folder / "large", 8 + header.size() + static_cast<std::uintmax_t>(gap));
  std::ofstream(folder / "large", std::ios::binary | std::ios::app) << "end";
  const auto reader = SafetensorsReader::open(folder / "large");
  ASSERT_TRUE(reader.ok()) << reader.status();
  std::string tail(3, '\0');
  ASSERT_TRUE(reader->read(*reader->find("w"), 0, std::as_writable_bytes(std::span(tail))).ok());
  EXPECT_EQ(tail, "end");
}

TEST(Hash, IsXxh3Of128Bits) {
  // values by python-xxhash, xxh3_128_hexdigest
  EXPECT_EQ(hash_of(""), "99aa06d3014798d86001c324468d497f");
  EXPECT_EQ(hash_of("abc"), "06b05ab6733a618578af5f94892f3950");
  std::string thousand;
  for (int i = 0; i < 1000; ++i) thousand.push_back(static_cast<char>(i % 251));
  EXPECT_EQ(hash_of(thousand), "18bf41bc8229e27733ef703fb2b20ed1");
  Hash in_pieces;
  for (std::size_t at = 0; at < 1000; at += 333) {
    const std::string piece = thousand.substr(at, 333);
    in_pieces.update(std::as_bytes(std::span(piece)));
  }
  EXPECT_EQ(in_pieces.hex(), hash_of(thousand));
}

}  // namespace
}  // namespace troupe::checkpoint
