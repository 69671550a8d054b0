#include <algorithm>
#include <limits>
#include <optional>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "models/checkpoint/json.h"
#include "models/checkpoint/safetensors.h"

namespace troupe::checkpoint {
namespace {

using nlohmann::json;

constexpr std::size_t kRankMax = 64;

// "FILE: InvalidOffset: tensor "w": why"
struct Faults {
  const std::string& file;
  Status header(const std::string& kind, const std::string& why) const {
    return absl::InvalidArgumentError(absl::StrCat(file, ": ", kind, ": ", why));
  }
  Status tensor(const std::string& kind, const std::string& tensor, const std::string& why) const {
    return header(kind, absl::StrCat("tensor ", in_quotes(tensor), ": ", why));
  }
};

// What stood there, short enough for a message.
std::string shown(const json& value) {
  std::string text = value.dump(-1, ' ', false, json::error_handler_t::replace);
  return text.size() <= 60 ? text : absl::StrCat(text.substr(0, 60), "..");
}

// nullopt: not an array of whole numbers from 0 to 2^63 - 1
std::optional<Shape> integers(const json& value) {
  if (!value.is_array()) return std::nullopt;
  Shape result;
  for (const json& item : value) {
    if (!item.is_number_unsigned()) return std::nullopt;
    const auto number = item.get<std::uint64_t>();
    if (number > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) return std::nullopt;
    result.push_back(static_cast<std::int64_t>(number));
  }
  return result;
}

StatusOr<TensorEntry> parse_tensor(const Faults& faults, const std::string& name, const json& value) {
  constexpr const char* kKind = "InvalidHeaderDeserialization";
  if (!value.is_object())
    return faults.tensor(kKind, name, absl::StrCat("must be an object, is ", shown(value)));
  for (const char* key : {"dtype", "shape", "data_offsets"}) {
    if (!value.contains(key)) return faults.tensor(kKind, name, absl::StrCat("has no key \"", key, "\""));
  }
  const json& dtype = value["dtype"];
  const auto type = dtype.is_string() ? element_type(dtype.get_ref<const std::string&>()) : std::nullopt;
  if (!type) return faults.tensor(kKind, name, absl::StrCat("unknown dtype ", shown(dtype)));
  std::optional<Shape> shape = integers(value["shape"]);
  if (!shape || shape->size() > kRankMax) {
    return faults.tensor(
        kKind, name,
        absl::StrCat("shape must be at most ", kRankMax, " whole numbers, is ", shown(value["shape"])));
  }
  const std::optional<Shape> offsets = integers(value["data_offsets"]);
  if (!offsets || offsets->size() != 2) {
    return faults.tensor(
        kKind, name,
        absl::StrCat("data_offsets must be two whole numbers, is ", shown(value["data_offsets"])));
  }
  return TensorEntry{name, *type, std::move(*shape), (*offsets)[0], (*offsets)[1]};
}

Status check_size(const Faults& faults, const TensorEntry& tensor) {
  const std::optional<std::int64_t> elements = element_count(tensor.shape);
  std::int64_t bits = 0;
  if (!elements || __builtin_mul_overflow(*elements, std::int64_t{size_bits(tensor.type)}, &bits)) {
    return faults.tensor("ValidationOverflow", tensor.name,
                         absl::StrCat("shape ", to_string(tensor.shape), " is too large"));
  }
  if (bits % 8 != 0) {
    return faults.tensor(
        "MisalignedSlice", tensor.name,
        absl::StrCat(*elements, " elements of ", std::string(name(tensor.type)), " are not whole bytes"));
  }
  if (tensor.end_bytes - tensor.begin_bytes != bits / 8) {
    return faults.tensor(
        "TensorInvalidInfo", tensor.name,
        absl::StrCat(std::string(name(tensor.type)), " ", to_string(tensor.shape), " takes ", bits / 8,
                     " bytes, its data_offsets span ", tensor.end_bytes - tensor.begin_bytes));
  }
  return ok();
}

}  // namespace

StatusOr<SafetensorsHeader> parse_safetensors_header(const std::string& file, std::string_view text,
                                                     std::int64_t data_bytes) {
  const Faults faults{file};
  if (!is_utf8(text)) return faults.header("InvalidHeader", "not UTF-8");
  if (text.empty() || text.front() != '{')
    return faults.header("InvalidHeaderStart", "the header must begin with '{'");
  const StatusOr<json> parsed = parse_json(text);
  if (!parsed.ok())
    return faults.header("InvalidHeaderDeserialization", std::string(parsed.status().message()));

  SafetensorsHeader header;
  for (const auto& [key, value] : parsed->items()) {
    if (key != "__metadata__") {
      TROUPE_ASSIGN_OR_RETURN(TensorEntry tensor, parse_tensor(faults, key, value));
      header.tensors.push_back(std::move(tensor));
      continue;
    }
    if (!value.is_object())
      return faults.header("InvalidHeaderDeserialization", "__metadata__ must be an object");
    for (const auto& [name, text_value] : value.items()) {
      if (!text_value.is_string()) {
        return faults.header(
            "InvalidHeaderDeserialization",
            absl::StrCat("__metadata__ ", in_quotes(name), " must be a string, is ", shown(text_value)));
      }
      header.metadata[name] = text_value.get<std::string>();
    }
  }

  const auto place = [](const TensorEntry& t) { return std::tie(t.begin_bytes, t.end_bytes, t.name); };
  std::ranges::sort(header.tensors, [&](const auto& a, const auto& b) { return place(a) < place(b); });
  std::int64_t end = 0;
  for (const TensorEntry& tensor : header.tensors) {
    if (tensor.begin_bytes != end || tensor.end_bytes < tensor.begin_bytes) {
      return faults.tensor(
          "InvalidOffset", tensor.name,
          absl::StrCat("data_offsets [", tensor.begin_bytes, ", ", tensor.end_bytes, "] must begin at ", end,
                       " where the tensor before ends, and not go back"));
    }
    TROUPE_RETURN_IF_ERROR(check_size(faults, tensor));
    end = tensor.end_bytes;
  }
  if (end != data_bytes) {
    return absl::DataLossError(absl::StrCat(file, ": MetadataIncompleteBuffer: the header describes ", end,
                                            " bytes of data, the file holds ", data_bytes,
                                            ": it is cut short or something was added; copy it again"));
  }
  return header;
}

}  // namespace troupe::checkpoint
