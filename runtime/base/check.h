// Broken invariants end the process: TROUPE_CHECK(condition) << "what was seen"; on in every build mode.
//
// The message goes to stderr with file and line, then every registered last-words function runs (the trace registers one
// that prints the last events of each actor), then abort(). Threads: any.
#pragma once

#include <functional>
#include <sstream>

namespace troupe {

// Runs while the process dies of a failed check. Must not allocate much, must not lock what the dying thread may hold.
// Returns an id for remove_last_words.
int add_last_words(std::function<void()> speak);
void remove_last_words(int id);

// Collects the message of a failed check; its destructor does not return.
class CheckFailure {
 public:
  CheckFailure(const char* file, int line, const char* condition);
  [[noreturn]] ~CheckFailure();
  CheckFailure(const CheckFailure&) = delete;
  CheckFailure& operator=(const CheckFailure&) = delete;
  std::ostream& stream() { return text_; }

 private:
  std::ostringstream text_;
};

}  // namespace troupe

#define TROUPE_CHECK(condition) \
  while (!__builtin_expect(static_cast<bool>(condition), true)) \
  ::troupe::CheckFailure(__FILE__, __LINE__, #condition).stream()
