#include <cstdio>

#include "models/data/corpus.h"
#include "models/data/inspect.h"
#include "tools/troupe/commands.h"

namespace troupe::tool {

Status data_prepare(const DataPrepareArguments& arguments) {
  TROUPE_ASSIGN_OR_RETURN(const auto tokenizer, data::make_tokenizer(arguments.tokenizer));
  TROUPE_ASSIGN_OR_RETURN(const auto report, data::prepare(arguments.inputs, *tokenizer, arguments.options));
  std::fputs(data::to_text(report).c_str(), stdout);
  return ok();
}

Status data_inspect(const std::string& path) {
  TROUPE_ASSIGN_OR_RETURN(const auto corpus, data::open_corpus(path));
  TROUPE_ASSIGN_OR_RETURN(const auto summary, data::summarize(*corpus));
  std::fputs(data::to_text(summary).c_str(), stdout);
  return ok();
}

}  // namespace troupe::tool
