#include "models/checkpoint/manifest.h"

#include <cmath>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "models/checkpoint/hash.h"
#include "models/checkpoint/json.h"

namespace troupe::checkpoint {
namespace {

using nlohmann::json;

// JSON has no such numbers, yet a run that reached one must be able to save it.
json double_to_json(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  return value;
}

json shard_to_json(const ShardRecord& shard) {
  json files = json::array(), tensors = json::array();
  for (const FileFacts& file : shard.files) {
    files.push_back({{"name", file.name}, {"bytes", file.bytes}, {"xxh3_128", file.xxh3_128}});
  }
  for (const TensorPiece& piece : shard.tensors) {
    tensors.push_back({{"name", piece.name},
                       {"kind", std::string(name(piece.kind))},
                       {"dtype", std::string(name(piece.type))},
                       {"shape", piece.shape},
                       {"offsets", piece.slice.offsets},
                       {"sizes", piece.slice.sizes},
                       {"file", piece.file},
                       {"begin_bytes", piece.begin_bytes},
                       {"end_bytes", piece.end_bytes}});
  }
  return {{"files", std::move(files)}, {"tensors", std::move(tensors)}};
}

}  // namespace

std::string_view name(TensorKind kind) {
  switch (kind) {
    case TensorKind::kParameter:
      return "parameter";
    case TensorKind::kAdamM:
      return "adam_m";
    case TensorKind::kAdamV:
      return "adam_v";
  }
  return "?";
}

StatusOr<std::string> model_fingerprint(const std::string& model) {
  const StatusOr<json> value = parse_json(model);
  if (!value.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("model description: ", std::string(value.status().message())));
  }
  if (!value->is_object()) return absl::InvalidArgumentError("model description: must be a JSON object");
  TROUPE_ASSIGN_OR_RETURN(const std::string sorted, dump_json(*value));
  return hash_of(sorted);
}

std::string first_difference(const std::string& model_here, const std::string& model_there) {
  const StatusOr<json> here = parse_json(model_here), there = parse_json(model_there);
  if (!here.ok() || !there.ok() || !here->is_object() || !there->is_object()) return "not JSON objects";
  const auto shown = [](const json& object, const std::string& key) {
    return object.contains(key) ? object[key].dump(-1, ' ', false, json::error_handler_t::replace)
                                : "nothing";
  };
  json all = *here;
  all.update(*there);
  for (const auto& [key, value] : all.items()) {
    const std::string a = shown(*here, key), b = shown(*there, key);
    if (a != b) return absl::StrCat(key, ": ", a, " here, ", b, " there");
  }
  return "";
}

StatusOr<std::string> to_text(const Manifest& manifest) {
  const CheckpointFacts& facts = manifest.facts;
  json doubles = json::object();
  for (const auto& [key, value] : facts.doubles) doubles[key] = double_to_json(value);
  json root = shard_to_json(manifest.shard);
  root["format_version"] = kFormatVersion;
  root["troupe_version"] = manifest.troupe_version;
  root["model"] = facts.model;
  root["model_fingerprint"] = manifest.model_fingerprint;
  root["step"] = facts.step.value;
  root["samples"] = facts.samples;
  root["tokens"] = facts.tokens;
  root["seed"] = facts.seed;
  root["doubles"] = std::move(doubles);
  root["integers"] = facts.integers;
  root["config"] = facts.config;
  return dump_json(root, 1);
}

StatusOr<std::string> to_text(const ShardRecord& shard) { return dump_json(shard_to_json(shard)); }

Status check_tiling(std::span<const TensorPiece> pieces) {
  std::map<std::tuple<std::string_view, TensorKind>, std::vector<const TensorPiece*>> tensors;
  for (const TensorPiece& piece : pieces) tensors[{piece.name, piece.kind}].push_back(&piece);
  for (const auto& [key, parts] : tensors) {
    const TensorPiece& first = *parts.front();
    const auto refuse = [&](const std::string& why) {
      return absl::InvalidArgumentError(
          absl::StrCat("tensor ", in_quotes(first.name), " (", std::string(name(first.kind)), "): ", why));
    };
    std::vector<Slice> slices;
    for (const TensorPiece* part : parts) {
      if (part->shape != first.shape || part->type != first.type) {
        return refuse(absl::StrCat("one slice says ", std::string(name(first.type)), " ",
                                   to_string(first.shape), ", another ", std::string(name(part->type)), " ",
                                   to_string(part->shape)));
      }
      slices.push_back(part->slice);
    }
    if (const std::optional<std::string> fault = tiling_fault(first.shape, slices)) return refuse(*fault);
  }
  return ok();
}

}  // namespace troupe::checkpoint
