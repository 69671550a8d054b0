#include "runtime/base/check.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>

namespace troupe {
namespace {

struct LastWords {
  std::mutex mutex;
  std::map<int, std::function<void()>> speakers;
  int next_id = 0;
};

// Lives as long as the process: a check may fail while static objects are destroyed.
LastWords& last_words() {
  static auto* words = new LastWords;
  return *words;
}

std::atomic<bool> dying{false};

}  // namespace

int add_last_words(std::function<void()> speak) {
  auto& words = last_words();
  std::lock_guard lock(words.mutex);
  words.speakers.emplace(words.next_id, std::move(speak));
  return words.next_id++;
}

void remove_last_words(int id) {
  auto& words = last_words();
  std::lock_guard lock(words.mutex);
  words.speakers.erase(id);
}

CheckFailure::CheckFailure(const char* file, int line, const char* condition) {
  text_ << "check failed: " << condition << " at " << file << ":" << line << " ";
}

CheckFailure::~CheckFailure() {
  text_ << "\n";
  std::fputs(text_.str().c_str(), stderr);
  if (!dying.exchange(true)) {
    auto& words = last_words();
    if (std::unique_lock lock(words.mutex, std::try_to_lock); lock.owns_lock()) {
      for (auto& [id, speak] : words.speakers) speak();
    }
  }
  std::fflush(stderr);
  std::abort();
}

}  // namespace troupe
