#include "models/checkpoint/writer.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "models/checkpoint/directory.h"
#include "models/checkpoint/safetensors.h"
#include "runtime/base/check.h"

namespace troupe::checkpoint {
namespace {

// One tensor of a shard file, and the sources that make it up, in the order of its bytes.
struct Entry {
  std::string name;
  Slice slice;
  std::vector<const TensorSource*> parts;
};

Status check_source(const TensorSource& source) {
  const auto refuse = [&](const std::string& why) {
    return absl::InvalidArgumentError(
        absl::StrCat("tensor ", source.name, " (", std::string(name(source.kind)), "): ", why));
  };
  if (!size_bytes(source.type, source.shape))
    return refuse(absl::StrCat("shape ", to_string(source.shape), " has no size"));
  if (!is_inside(source.slice, source.shape)) {
    return refuse(absl::StrCat("slice ", to_string(source.slice), " lies outside ", to_string(source.shape)));
  }
  const std::int64_t bytes = size_bytes(source.type, source.slice.sizes).value_or(-1);
  if (bytes != static_cast<std::int64_t>(source.bytes.size())) {
    return refuse(absl::StrCat("slice ", to_string(source.slice), " takes ", bytes, " bytes, given ",
                               source.bytes.size()));
  }
  return ok();
}

// Whether the parts, sorted by where they start in the flat tensor, follow each other from its first element
// to its last.
bool join_up(std::vector<const TensorSource*>& parts) {
  const Shape& shape = parts.front()->shape;
  std::vector<std::pair<std::int64_t, const TensorSource*>> placed;
  for (const TensorSource* part : parts) {
    const std::optional<std::int64_t> begin = flat_begin(part->slice, shape);
    if (!begin || part->shape != shape || part->type != parts.front()->type) return false;
    placed.emplace_back(*begin, part);
  }
  std::ranges::stable_sort(placed, {}, [](const auto& p) { return p.first; });
  std::int64_t end = 0;
  for (const auto& [begin, part] : placed) {
    if (begin != end) return false;
    end += element_count(part->slice.sizes).value_or(0);
  }
  if (end != element_count(shape)) return false;
  std::ranges::transform(placed, parts.begin(), [](const auto& p) { return p.second; });
  return true;
}

// By name in the file.
std::map<std::string, Entry> entries_of(std::span<const TensorSource* const> sources) {
  std::map<std::string, std::vector<const TensorSource*>> tensors;
  for (const TensorSource* source : sources) {
    const std::string suffix =
        source->kind == TensorKind::kParameter ? "" : absl::StrCat(".", std::string(name(source->kind)));
    tensors[source->name + suffix].push_back(source);
  }
  std::map<std::string, Entry> entries;
  for (auto& [name, parts] : tensors) {
    if (join_up(parts)) {
      entries[name] = {name, whole(parts.front()->shape), parts};
      continue;
    }
    for (const TensorSource* part : parts) {
      const std::string sliced = absl::StrCat(name, "@", absl::StrJoin(part->slice.offsets, ","));
      entries[sliced] = {
          sliced, part->slice, {part}};  // the same offsets twice: refused by check_tiling at commit
    }
  }
  return entries;
}

Status write_group(const Disk& disk, const std::string& folder, const std::string& file_name,
                   std::span<const TensorSource* const> sources, ShardRecord& shard) {
  if (sources.empty()) return ok();
  const std::map<std::string, Entry> entries = entries_of(sources);
  std::vector<TensorEntry> declared;
  for (const auto& [name, entry] : entries)
    declared.push_back({name, entry.parts.front()->type, entry.slice.sizes});
  // Readers of Hugging Face files ask for the key "format".
  TROUPE_ASSIGN_OR_RETURN(SafetensorsWriter writer,
                          SafetensorsWriter::create(disk, absl::StrCat(folder, "/", file_name),
                                                    std::move(declared), {{"format", "pt"}}));
  for (const TensorEntry& tensor : writer.tensors()) {
    const Entry& entry = entries.at(tensor.name);
    for (const TensorSource* part : entry.parts) TROUPE_RETURN_IF_ERROR(writer.append(part->bytes));
    const TensorSource& first = *entry.parts.front();
    shard.tensors.push_back({first.name, first.kind, first.type, first.shape, entry.slice, file_name,
                             writer.data_begin_bytes() + tensor.begin_bytes,
                             writer.data_begin_bytes() + tensor.end_bytes});
  }
  TROUPE_ASSIGN_OR_RETURN(const WrittenFile written, writer.close_durably());
  shard.files.push_back({file_name, written.bytes, written.xxh3_128});
  return ok();
}

}  // namespace

StatusOr<ShardRecord> write_shard(const Disk& disk, const std::string& folder, int shard,
                                  std::span<const TensorSource> sources) {
  std::vector<const TensorSource*> parameters, moments;
  for (const TensorSource& source : sources) {
    TROUPE_RETURN_IF_ERROR(check_source(source));
    (source.kind == TensorKind::kParameter ? parameters : moments).push_back(&source);
  }
  ShardRecord record;
  const auto file_name = [&](const char* group) {
    return absl::StrFormat("%s-%05d.safetensors", group, shard);
  };
  TROUPE_RETURN_IF_ERROR(write_group(disk, folder, file_name("model"), parameters, record));
  TROUPE_RETURN_IF_ERROR(write_group(disk, folder, file_name("optimizer"), moments, record));
  return record;
}

StatusOr<CheckpointSave> CheckpointSave::begin(const Disk& disk, const std::string& out, StepId step) {
  const std::string folder = writing_folder(out, step);
  TROUPE_RETURN_IF_ERROR(disk.remove_all(folder));
  TROUPE_RETURN_IF_ERROR(disk.create_folder(folder));
  return CheckpointSave(disk, out, step, folder);
}

CheckpointSave::CheckpointSave(CheckpointSave&& other) noexcept
    : disk_(other.disk_),
      out_(std::move(other.out_)),
      step_(other.step_),
      folder_(std::exchange(other.folder_, "")),
      shard_(std::move(other.shard_)) {}

CheckpointSave::~CheckpointSave() {
  // What cannot be removed now is a leftover: ignored by readers, removed by the next run.
  if (!folder_.empty()) (void)disk_->remove_all(folder_);
}

void CheckpointSave::add(ShardRecord shard) {
  std::ranges::move(shard.files, std::back_inserter(shard_.files));
  std::ranges::move(shard.tensors, std::back_inserter(shard_.tensors));
}

StatusOr<std::string> CheckpointSave::commit(const CheckpointFacts& facts) {
  TROUPE_CHECK(!folder_.empty()) << "committed before";
  TROUPE_CHECK(facts.step == step_) << "step " << facts.step << ", begun as " << step_;
  TROUPE_RETURN_IF_ERROR(check_tiling(shard_.tensors));
  TROUPE_ASSIGN_OR_RETURN(std::string fingerprint, model_fingerprint(facts.model));
  TROUPE_ASSIGN_OR_RETURN(const std::string text, to_text(Manifest{TROUPE_VERSION, std::move(fingerprint),
                                                                   facts, std::move(shard_)}));
  TROUPE_ASSIGN_OR_RETURN(const WrittenFile manifest,
                          disk_->write_file_durably(absl::StrCat(folder_, "/", kManifestName), text));
  TROUPE_RETURN_IF_ERROR(disk_->sync_folder(folder_));
  TROUPE_RETURN_IF_ERROR(disk_
                             ->write_file_durably(absl::StrCat(folder_, "/", kMarkerName),
                                                  absl::StrCat(manifest.xxh3_128, "  ", kManifestName, "\n"))
                             .status());
  TROUPE_RETURN_IF_ERROR(disk_->sync_folder(folder_));
  TROUPE_RETURN_IF_ERROR(publish(*disk_, out_, step_));
  folder_.clear();
  return final_folder(out_, step_);
}

StatusOr<std::string> save_checkpoint(const Disk& disk, const std::string& out, const CheckpointFacts& facts,
                                      std::span<const TensorSource> sources) {
  TROUPE_ASSIGN_OR_RETURN(CheckpointSave save, CheckpointSave::begin(disk, out, facts.step));
  TROUPE_ASSIGN_OR_RETURN(ShardRecord shard, write_shard(disk, save.folder(), 0, sources));
  save.add(std::move(shard));
  return save.commit(facts);
}

}  // namespace troupe::checkpoint
