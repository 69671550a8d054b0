#include <cstdio>

#include "models/checkpoint/inspect.h"
#include "tools/troupe/commands.h"

namespace troupe::tool {

Status checkpoint_inspect(const std::string& folder) {
  TROUPE_ASSIGN_OR_RETURN(const std::string text, checkpoint::describe(folder));
  std::fputs(text.c_str(), stdout);
  return ok();
}

Status checkpoint_verify(const std::string& folder) {
  TROUPE_RETURN_IF_ERROR(checkpoint::verify(folder));
  std::printf("%s: every file is as it was saved\n", folder.c_str());
  return ok();
}

}  // namespace troupe::tool
