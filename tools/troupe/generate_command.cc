#include <cstdio>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "actors/plan/model_of.h"
#include "actors/train/checkpoint_writer.h"
#include "kernels/cpu/cpu.h"
#include "models/checkpoint/directory.h"
#include "models/checkpoint/reader.h"
#include "models/data/tokenizer.h"
#include "tools/troupe/commands.h"

namespace troupe::tool {
namespace {

// A checkpoint's folder, or the run's, whose newest complete one is taken.
StatusOr<std::string> checkpoint_folder(const std::string& path) {
  if (std::filesystem::exists(path + "/" + checkpoint::kMarkerName)) return path;
  if (!std::filesystem::exists(path)) return absl::NotFoundError(absl::StrCat("--checkpoint ", path, ": no such folder"));
  if (auto newest = checkpoint::newest_complete(path); newest.ok()) return newest->path;
  return absl::NotFoundError(absl::StrCat("--checkpoint ", path, ": neither a complete checkpoint nor a run's folder with one"));
}

}  // namespace

Status generate(const GenerateArguments& arguments) {
  TROUPE_ASSIGN_OR_RETURN(const std::string folder, checkpoint_folder(arguments.checkpoint));
  TROUPE_ASSIGN_OR_RETURN(const auto reader, checkpoint::CheckpointReader::open(folder));
  TROUPE_ASSIGN_OR_RETURN(const auto job, plan::parse_job_config(reader.manifest().facts.config, folder + "/config", {}));
  TROUPE_ASSIGN_OR_RETURN(const auto model, plan::model_of(job));
  const data::ByteTokenizer tokenizer;
  if (model.vocabulary != tokenizer.vocab_size()) {
    return absl::FailedPreconditionError(absl::StrCat(folder, " has a vocabulary of ", model.vocabulary,
                                                      "; text can be generated with the byte tokenizer's ", tokenizer.vocab_size(), " only"));
  }
  models::Generator generator(model, kernels::cpu::table(), all_cores(), arguments.window);
  TROUPE_RETURN_IF_ERROR(actors::load_parameters(reader, model, generator));

  std::vector<std::int32_t> prompt{tokenizer.end_of_document()};
  tokenizer.encode(arguments.prompt, prompt);
  std::fputs(arguments.prompt.c_str(), stdout);
  auto sampling = arguments.sampling;
  sampling.stop_token = tokenizer.end_of_document();
  generator.generate(std::move(prompt), sampling, [&](std::int32_t token) {
    const auto text = tokenizer.decode(std::span(&token, 1));
    if (text.ok()) std::fwrite(text->data(), 1, text->size(), stdout);
    std::fflush(stdout);
  });
  std::fputs("\n", stdout);
  return ok();
}

}  // namespace troupe::tool
