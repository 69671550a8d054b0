#include <CLI/CLI.hpp>
#include <cstdio>

#include "models/checkpoint/inspect.h"
#include "tools/troupe/commands.h"

namespace troupe::tool {

Run add_checkpoint_inspect(CLI::App& app) {
  auto folder = std::make_shared<std::string>();
  app.add_option("checkpoint", *folder, "a folder OUT/checkpoints/step-N")->required();
  return [folder]() -> Status {
    TROUPE_ASSIGN_OR_RETURN(const std::string text, checkpoint::describe(*folder));
    std::fputs(text.c_str(), stdout);
    return ok();
  };
}

Run add_checkpoint_verify(CLI::App& app) {
  auto folder = std::make_shared<std::string>();
  app.add_option("checkpoint", *folder, "a folder OUT/checkpoints/step-N")->required();
  return [folder]() -> Status {
    TROUPE_RETURN_IF_ERROR(checkpoint::verify(*folder));
    std::printf("%s: every file is as it was saved\n", folder->c_str());
    return ok();
  };
}

}  // namespace troupe::tool
