#include <CLI/CLI.hpp>
#include <cstdio>

#include "models/data/corpus.h"
#include "models/data/inspect.h"
#include "models/data/prepare.h"
#include "tools/troupe/commands.h"

namespace troupe::tool {

Run add_data_prepare(CLI::App& app) {
  struct Arguments {
    std::vector<std::string> inputs;
    std::string tokenizer = "byte";
    data::PrepareOptions options;
  };
  auto arguments = std::make_shared<Arguments>();
  auto& options = arguments->options;
  app.add_option("inputs", arguments->inputs, "files, or folders that are read with all below them")->required();
  app.add_option("--output,-o", options.output, "prefix of the corpus: PREFIX.bin, PREFIX.idx, or PREFIX_train.*, PREFIX_validation.*")->required();
  app.add_option("--tokenizer", arguments->tokenizer, "byte")->capture_default_str();
  app.add_option("--validation", options.validation_fraction, "share of documents that is held out, in [0, 1)")->capture_default_str();
  app.add_option("--seed", options.split_seed, "of the choice of held-out documents")->capture_default_str();
  app.add_option("--split-on", options.split_on, "a line that separates documents within a file, such as %");
  app.add_flag("--force", options.force, "replace a corpus that is there");
  return [arguments]() -> Status {
    TROUPE_ASSIGN_OR_RETURN(const auto tokenizer, data::make_tokenizer(arguments->tokenizer));
    TROUPE_ASSIGN_OR_RETURN(const auto report, data::prepare(arguments->inputs, *tokenizer, arguments->options));
    std::fputs(data::to_text(report).c_str(), stdout);
    return ok();
  };
}

Run add_data_inspect(CLI::App& app) {
  auto path = std::make_shared<std::string>();
  app.add_option("corpus", *path, "a prefix, a .bin file, a folder or a pattern of llm.c shards")->required();
  return [path]() -> Status {
    TROUPE_ASSIGN_OR_RETURN(const auto corpus, data::open_corpus(*path));
    TROUPE_ASSIGN_OR_RETURN(const auto summary, data::summarize(*corpus));
    std::fputs(data::to_text(summary).c_str(), stdout);
    return ok();
  };
}

}  // namespace troupe::tool
