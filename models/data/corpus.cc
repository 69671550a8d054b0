#include "models/data/corpus.h"

#include <glob.h>

#include <algorithm>
#include <filesystem>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "models/data/llmc_corpus.h"
#include "models/data/megatron_corpus.h"

namespace troupe::data {
namespace {

namespace fs = std::filesystem;

bool exists(const std::string& path) {
  std::error_code error;
  return fs::exists(path, error);
}

// Both halves of a split read as one corpus would train on the validation text.
Status check_one_split(const std::string& name, const std::vector<std::string>& paths) {
  std::string train, validation;
  for (const auto& path : paths) {
    const std::string file = fs::path(path).filename().string();
    if (absl::StrContains(file, "_train")) train = file;
    if (absl::StrContains(file, "_val")) validation = file;
  }
  if (train.empty() || validation.empty()) return ok();
  return absl::InvalidArgumentError(absl::StrCat(name, ": holds shards of both splits (", train, ", ",
                                                 validation, "); name one, as in \"", name,
                                                 "/*_train*.bin\""));
}

StatusOr<std::vector<std::string>> shards_of_folder(const std::string& folder) {
  std::vector<std::string> shards, indices;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    const fs::path& path = entry->path();
    if (path.extension() == ".bin") shards.push_back(path.string());
    if (path.extension() == ".idx") indices.push_back(path.filename().replace_extension().string());
  }
  if (error) return absl::UnavailableError(absl::StrCat("list ", folder, ": ", error.message()));
  std::sort(shards.begin(), shards.end());
  std::sort(indices.begin(), indices.end());
  if (!indices.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(folder, ": is a folder with ", indices.size(),
                                                   " Megatron corpora; name one, as in \"",
                                                   (fs::path(folder) / indices[0]).string(), "\""));
  }
  if (shards.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        folder,
        ": is a folder without token files (*.bin); text is turned into a corpus by `troupe data prepare`"));
  }
  TROUPE_RETURN_IF_ERROR(check_one_split(folder, shards));
  return shards;
}

StatusOr<std::vector<std::string>> shards_of_pattern(const std::string& pattern) {
  glob_t found{};
  const int failed = glob(pattern.c_str(), GLOB_NOSORT, nullptr, &found);
  std::vector<std::string> shards(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  globfree(&found);
  if (failed != 0 || shards.empty())
    return absl::NotFoundError(absl::StrCat(pattern, ": no file matches the pattern"));
  std::sort(shards.begin(), shards.end());  // by bytes, not by locale: the same stream on every machine
  TROUPE_RETURN_IF_ERROR(check_one_split(pattern, shards));
  return shards;
}

}  // namespace

Status Corpus::check_range(std::int64_t begin, std::size_t count) const {
  if (begin >= 0 && begin <= tokens() && count <= static_cast<std::uint64_t>(tokens() - begin)) return ok();
  return absl::OutOfRangeError(
      absl::StrCat(facts_.path, ": tokens ", begin, " and ", count, " on were asked; it has ", tokens()));
}

Status bad_token_status(const std::string& file, std::int64_t position, std::int64_t offset,
                        std::int64_t value, std::int32_t limit) {
  return absl::DataLossError(
      absl::StrCat(file, ": at byte ", offset, ": token ", position, " is ", value, ", must be from 0 to ",
                   limit - 1, "; the corpus does not fit the vocabulary, or the file is damaged"));
}

StatusOr<std::unique_ptr<Corpus>> open_corpus(const std::string& path, const CorpusOptions& options) {
  if (path.empty()) return absl::InvalidArgumentError("corpus path is empty; name a corpus");
  std::error_code error;
  if (exists(path + ".idx")) return MegatronCorpus::open(path, options);
  if (fs::is_directory(path, error)) {
    TROUPE_ASSIGN_OR_RETURN(const auto shards, shards_of_folder(path));
    return LlmcCorpus::open(path, shards, options);
  }
  if (exists(path)) {
    const fs::path file(path);
    const std::string prefix = fs::path(file).replace_extension().string();
    if (file.extension() == ".idx" || (file.extension() == ".bin" && exists(prefix + ".idx"))) {
      return MegatronCorpus::open(prefix, options);
    }
    return LlmcCorpus::open(path, {path}, options);
  }
  if (path.find_first_of("*?[") != std::string::npos) {
    TROUPE_ASSIGN_OR_RETURN(const auto shards, shards_of_pattern(path));
    return LlmcCorpus::open(path, shards, options);
  }
  std::string hint = "name a Megatron prefix, an llm.c .bin, a folder or pattern of them";
  if (exists(path + "_train.idx"))
    hint = absl::StrCat("did you mean ", path, "_train or ", path, "_validation?");
  if (exists(path + ".bin")) hint = absl::StrCat("there is ", path, ".bin, but no ", path, ".idx beside it");
  return absl::NotFoundError(absl::StrCat(path, ": no corpus there; ", hint));
}

}  // namespace troupe::data
