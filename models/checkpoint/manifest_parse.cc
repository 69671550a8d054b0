#include <algorithm>
#include <limits>
#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "models/checkpoint/json.h"
#include "models/checkpoint/manifest.h"

namespace troupe::checkpoint {
namespace {

using nlohmann::json;

// One object of the file: takes its keys one by one, keeps the first fault; at the end no key may be left.
class Fields {
 public:
  Fields(std::string where, const json& object) : where_(std::move(where)), object_(object) {
    if (!object.is_object()) fail("", "an object");
  }

  template <class T>
  void take(const char* key, T& into) {
    const json* value = find(key);
    if (value != nullptr) read(key, *value, into);
  }
  const json& take(const char* key) {
    static const json none;
    const json* value = find(key);
    return value != nullptr ? *value : none;
  }
  void refuse(const char* key, const std::string& must) { fail(key, must); }

  Status finish() {
    if (!fault_.ok() || !object_.is_object()) return fault_;
    for (const auto& [key, value] : object_.items()) {
      if (!taken_.contains(key)) {
        return absl::InvalidArgumentError(
            absl::StrCat(where_, key, ": no such key in format ", kFormatVersion));
      }
    }
    return ok();
  }

 private:
  const json* find(const char* key) {
    taken_.insert(key);
    if (!object_.is_object()) return nullptr;
    const auto found = object_.find(key);
    if (found != object_.end()) return &*found;
    if (fault_.ok()) fault_ = absl::InvalidArgumentError(absl::StrCat(where_, key, ": missing"));
    return nullptr;
  }
  void fail(const std::string& key, const std::string& must) {
    if (!fault_.ok()) return;
    const json& at = key.empty() ? object_ : object_[key];
    std::string shown = at.dump(-1, ' ', false, json::error_handler_t::replace);
    if (shown.size() > 60) shown = absl::StrCat(shown.substr(0, 60), "..");
    fault_ = absl::InvalidArgumentError(absl::StrCat(where_, key, ": must be ", must, ", is ", shown));
  }

  void read(const char* key, const json& value, std::string& into) {
    if (!value.is_string()) return fail(key, "a string");
    into = value.get<std::string>();
  }
  void read(const char* key, const json& value, std::int64_t& into) {
    // what does not fit is unsigned beyond 2^63 - 1 or has become a float
    if (!value.is_number_integer() ||
        (value.is_number_unsigned() && value.get<std::uint64_t>() > kInt64Max)) {
      return fail(key, "a whole number of 64 bits");
    }
    into = value.get<std::int64_t>();
  }
  void read(const char* key, const json& value, std::uint64_t& into) {
    if (!value.is_number_unsigned()) return fail(key, "a whole number from 0 to 2^64 - 1");
    into = value.get<std::uint64_t>();
  }
  void read(const char* key, const json& value, double& into) {
    if (value.is_number()) {
      into = value.get<double>();
    } else if (value == "nan") {
      into = std::numeric_limits<double>::quiet_NaN();
    } else if (value == "inf" || value == "-inf") {
      into =
          value == "inf" ? std::numeric_limits<double>::infinity() : -std::numeric_limits<double>::infinity();
    } else {
      fail(key, "a number, \"nan\", \"inf\" or \"-inf\"");
    }
  }
  void read(const char* key, const json& value, Shape& into) {
    const bool good = value.is_array() && std::ranges::all_of(value, [](const json& item) {
                        return item.is_number_unsigned() && item.get<std::uint64_t>() <= kInt64Max;
                      });
    if (!good) return fail(key, "an array of whole numbers from 0 to 2^63 - 1");
    into = value.get<Shape>();
  }
  template <class T>
  void read(const char* key, const json& value, std::map<std::string, T>& into) {
    if (!value.is_object()) return fail(key, "an object of numbers");
    Fields inner(absl::StrCat(where_, key, "."), value);
    for (const auto& [name, item] : value.items()) inner.take(name.c_str(), into[name]);
    if (fault_.ok()) fault_ = inner.finish();
  }

  static constexpr std::uint64_t kInt64Max = std::numeric_limits<std::int64_t>::max();
  std::string where_;
  const json& object_;
  std::set<std::string, std::less<>> taken_;
  Status fault_;
};

StatusOr<FileFacts> parse_file(const std::string& where, const json& value) {
  FileFacts file;
  Fields fields(where, value);
  fields.take("name", file.name);
  fields.take("bytes", file.bytes);
  fields.take("xxh3_128", file.xxh3_128);
  TROUPE_RETURN_IF_ERROR(fields.finish());
  // a plain name: what is read stays inside the folder
  if (file.name.empty() || file.name.front() == '.' || file.name.find('/') != std::string::npos ||
      file.name.find('\0') != std::string::npos) {
    fields.refuse("name", "a file name without folders");
  }
  if (file.bytes < 0) fields.refuse("bytes", "at least 0");
  if (file.xxh3_128.size() != 32 ||
      file.xxh3_128.find_first_not_of("0123456789abcdef") != std::string::npos) {
    fields.refuse("xxh3_128", "32 digits of 0-9a-f");
  }
  TROUPE_RETURN_IF_ERROR(fields.finish());
  return file;
}

StatusOr<TensorPiece> parse_piece(const std::string& where, const json& value,
                                  const std::map<std::string, std::int64_t>& file_bytes) {
  TensorPiece piece;
  std::string kind, type;
  Fields fields(where, value);
  fields.take("name", piece.name);
  fields.take("kind", kind);
  fields.take("dtype", type);
  fields.take("shape", piece.shape);
  fields.take("offsets", piece.slice.offsets);
  fields.take("sizes", piece.slice.sizes);
  fields.take("file", piece.file);
  fields.take("begin_bytes", piece.begin_bytes);
  fields.take("end_bytes", piece.end_bytes);
  TROUPE_RETURN_IF_ERROR(fields.finish());

  constexpr TensorKind kKinds[] = {TensorKind::kParameter, TensorKind::kAdamM, TensorKind::kAdamV};
  const auto* found = std::ranges::find(kKinds, kind, [](TensorKind k) { return name(k); });
  if (found == std::end(kKinds)) {
    fields.refuse("kind", "\"parameter\", \"adam_m\" or \"adam_v\"");
  } else {
    piece.kind = *found;
  }
  const std::optional<ElementType> known = element_type(type);
  if (!known) fields.refuse("dtype", "a safetensors dtype such as \"F32\"");
  piece.type = known.value_or(ElementType::kF32);
  if (!size_bytes(piece.type, piece.shape)) fields.refuse("shape", "of fewer than 2^60 elements");
  if (!is_inside(piece.slice, piece.shape)) {
    fields.refuse("sizes", absl::StrCat("inside the shape ", to_string(piece.shape), " from offsets ",
                                        to_string(piece.slice.offsets)));
  }
  TROUPE_RETURN_IF_ERROR(fields.finish());
  const auto file = file_bytes.find(piece.file);
  if (file == file_bytes.end()) {
    fields.refuse("file", "one of the files listed");
  } else if (piece.begin_bytes < 0 || piece.begin_bytes > piece.end_bytes || piece.end_bytes > file->second) {
    fields.refuse("end_bytes",
                  absl::StrCat("between begin_bytes ", piece.begin_bytes, " and the file's ", file->second));
  } else if (piece.end_bytes - piece.begin_bytes != size_bytes(piece.type, piece.slice.sizes)) {
    fields.refuse("end_bytes",
                  absl::StrCat("begin_bytes + ", size_bytes(piece.type, piece.slice.sizes).value_or(-1)));
  }
  TROUPE_RETURN_IF_ERROR(fields.finish());
  return piece;
}

StatusOr<ShardRecord> parse_shard(const std::string& where, const json& files, const json& tensors) {
  if (!files.is_array()) return absl::InvalidArgumentError(absl::StrCat(where, "files: must be an array"));
  if (!tensors.is_array())
    return absl::InvalidArgumentError(absl::StrCat(where, "tensors: must be an array"));
  ShardRecord shard;
  std::map<std::string, std::int64_t> file_bytes;
  for (std::size_t i = 0; i < files.size(); ++i) {
    TROUPE_ASSIGN_OR_RETURN(FileFacts file, parse_file(absl::StrCat(where, "files[", i, "]."), files[i]));
    if (!file_bytes.emplace(file.name, file.bytes).second) {
      return absl::InvalidArgumentError(
          absl::StrCat(where, "files[", i, "].name: ", in_quotes(file.name), " twice"));
    }
    shard.files.push_back(std::move(file));
  }
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    TROUPE_ASSIGN_OR_RETURN(TensorPiece piece,
                            parse_piece(absl::StrCat(where, "tensors[", i, "]."), tensors[i], file_bytes));
    shard.tensors.push_back(std::move(piece));
  }
  return shard;
}

StatusOr<json> parse_or_name(const std::string& file, const std::string& text) {
  StatusOr<json> root = parse_json(text);
  if (!root.ok())
    return absl::InvalidArgumentError(absl::StrCat(file, ": ", std::string(root.status().message())));
  return root;
}

}  // namespace

StatusOr<Manifest> parse_manifest(const std::string& file, const std::string& text) {
  TROUPE_ASSIGN_OR_RETURN(const json root, parse_or_name(file, text));
  const std::string where = absl::StrCat(file, ": ");
  // The version first: a newer file may differ in anything else.
  std::int64_t version = 0;
  Fields fields(where, root);
  fields.take("format_version", version);
  if (root.is_object() && root.contains("format_version") && version > kFormatVersion) {
    return absl::FailedPreconditionError(absl::StrCat(file, ": format_version: ", version,
                                                      "; this program reads up to ", kFormatVersion,
                                                      ": use the program that wrote it or a newer one"));
  }
  Manifest manifest;
  CheckpointFacts& facts = manifest.facts;
  fields.take("troupe_version", manifest.troupe_version);
  fields.take("model", facts.model);
  fields.take("model_fingerprint", manifest.model_fingerprint);
  fields.take("step", facts.step.value);
  fields.take("samples", facts.samples);
  fields.take("tokens", facts.tokens);
  fields.take("seed", facts.seed);
  fields.take("doubles", facts.doubles);
  fields.take("integers", facts.integers);
  fields.take("config", facts.config);
  const json& files = fields.take("files");
  const json& tensors = fields.take("tensors");
  TROUPE_RETURN_IF_ERROR(fields.finish());
  if (version != kFormatVersion) fields.refuse("format_version", absl::StrCat(kFormatVersion));
  if (facts.step.value < 0) fields.refuse("step", "at least 0");
  if (facts.samples < 0) fields.refuse("samples", "at least 0");
  if (facts.tokens < 0) fields.refuse("tokens", "at least 0");
  const StatusOr<std::string> fingerprint = model_fingerprint(facts.model);
  if (!fingerprint.ok() || *fingerprint != manifest.model_fingerprint) {
    fields.refuse("model_fingerprint",
                  absl::StrCat("that of the key model, ", fingerprint.value_or("which is no JSON object")));
  }
  TROUPE_RETURN_IF_ERROR(fields.finish());
  TROUPE_ASSIGN_OR_RETURN(manifest.shard, parse_shard(where, files, tensors));
  return manifest;
}

StatusOr<ShardRecord> parse_shard_record(const std::string& source, const std::string& text) {
  TROUPE_ASSIGN_OR_RETURN(const json root, parse_or_name(source, text));
  const std::string where = absl::StrCat(source, ": ");
  Fields fields(where, root);
  const json& files = fields.take("files");
  const json& tensors = fields.take("tensors");
  TROUPE_RETURN_IF_ERROR(fields.finish());
  return parse_shard(where, files, tensors);
}

}  // namespace troupe::checkpoint
