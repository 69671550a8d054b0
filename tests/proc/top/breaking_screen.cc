// Draws, then breaks down in the way that its argument says, at the first key.
#include <cstdio>
#include <stdexcept>
#include <string>

#include "runtime/base/check.h"
#include "tools/top/screen.h"

namespace {

void break_down(const std::string& how) {
  if (how == "exception") throw std::runtime_error("an exception that nobody takes");
  TROUPE_CHECK(how != "check") << "a check that fails";
  if (how == "access") *static_cast<volatile int*>(nullptr) = 1;
}

}  // namespace

int main(int, char** argv) {
  const auto screen = troupe::top::Screen::open();
  if (!screen.ok()) return 2;
  (*screen)->show({{"drawn", troupe::top::Look::kTitle}});
  std::fprintf(stderr, "said meanwhile\n");
  while ((*screen)->wait(std::chrono::milliseconds(100), -1).kind != troupe::top::Event::kKey) {
  }
  break_down(argv[1]);
  return 0;
}
