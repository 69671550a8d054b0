#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <thread>

#include "absl/strings/str_cat.h"
#include "actors/plan/model_of.h"
#include "actors/train/checkpoint_writer.h"
#include "kernels/cpu/cpu.h"
#include "models/checkpoint/directory.h"
#include "models/checkpoint/reader.h"
#include "models/data/tokenizer.h"
#include "models/generate.h"
#include "tools/troupe/commands.h"

namespace troupe::tool {
namespace {

struct Arguments {
  std::string checkpoint, prompt = "The ";
  std::int64_t window = 1024;
  models::SamplingOptions sampling;
};

// A checkpoint's folder, or the run's, whose newest complete one is taken.
StatusOr<std::string> checkpoint_folder(const std::string& path) {
  if (std::filesystem::exists(path + "/" + checkpoint::kMarkerName)) return path;
  if (!std::filesystem::exists(path)) return absl::NotFoundError(absl::StrCat("--checkpoint ", path, ": no such folder"));
  if (auto newest = checkpoint::newest_complete(path); newest.ok()) return newest->path;
  return absl::NotFoundError(absl::StrCat("--checkpoint ", path, ": neither a complete checkpoint nor a run's folder with one"));
}

Status generate(const Arguments& arguments) {
  TROUPE_ASSIGN_OR_RETURN(const std::string folder, checkpoint_folder(arguments.checkpoint));
  TROUPE_ASSIGN_OR_RETURN(const auto reader, checkpoint::CheckpointReader::open(folder));
  TROUPE_ASSIGN_OR_RETURN(const auto job, plan::parse_job_config(reader.manifest().facts.config, folder + "/config", {}));
  TROUPE_ASSIGN_OR_RETURN(const auto model, plan::model_of(job));
  const data::ByteTokenizer tokenizer;
  if (model.vocabulary != tokenizer.vocab_size()) {
    return absl::FailedPreconditionError(absl::StrCat(folder, " has a vocabulary of ", model.vocabulary,
                                                      "; text can be generated with the byte tokenizer's ", tokenizer.vocab_size(), " only"));
  }
  const int threads = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  models::Generator generator(model, kernels::cpu::table(), threads, arguments.window);
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

}  // namespace

Run add_generate(CLI::App& app) {
  auto arguments = std::make_shared<Arguments>();
  auto& sampling = arguments->sampling;
  app.add_option("--checkpoint", arguments->checkpoint, "OUT/checkpoints/step-N, or OUT for the newest one")->required();
  app.add_option("--prompt", arguments->prompt, "how the text begins")->capture_default_str();
  app.add_option("--tokens", sampling.tokens, "how many at most")->capture_default_str()->check(CLI::NonNegativeNumber);
  app.add_option("--temperature", sampling.temperature, "0 takes the most likely token")->capture_default_str()->check(CLI::NonNegativeNumber);
  app.add_option("--top-k", sampling.top_k, "of so many most likely tokens; 0 of all")->capture_default_str()->check(CLI::NonNegativeNumber);
  app.add_option("--seed", sampling.seed, "of the draws")->capture_default_str();
  app.add_option("--window", arguments->window, "tokens that are looked back at")->capture_default_str()->check(CLI::PositiveNumber);
  return [arguments] { return generate(*arguments); };
}

}  // namespace troupe::tool
