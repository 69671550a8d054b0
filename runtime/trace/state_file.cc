#include "runtime/trace/state_file.h"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace troupe::trace {
namespace {

using namespace std::chrono_literals;

constexpr auto kEvery = 500ms;

std::string path_from_environment() {
  const char* path = std::getenv(kStateFileVariable);
  return path == nullptr ? "" : path;
}

}  // namespace

std::string state_text(const Snapshot& snapshot, std::size_t bytes_most) {
  std::string text;
  for (const auto& actor : snapshot.actors) {
    if (actor.state == State::kIdle && actor.depth == 0) continue;
    absl::StrAppend(&text, actor.name, ": ", doing(actor), absl::StrFormat(" for %.3f s", static_cast<double>(actor.since_ns) * 1e-9));
    if (actor.depth > 0) absl::StrAppend(&text, ", ", actor.depth, actor.depth == 1 ? " message waits" : " messages wait");
    absl::StrAppend(&text, "\n");
  }
  for (const auto& stone : snapshot.tombstones) {
    if (stone.cause != "OK") absl::StrAppend(&text, stone.name, ": failed: ", stone.cause, "\n");
  }
  if (text.empty()) text = absl::StrCat("all ", snapshot.actors.size(), " actors idle\n");
  return text.substr(0, bytes_most);
}

StateFile::StateFile(std::function<std::string()> text) : path_(path_from_environment()), text_(std::move(text)) {
  if (path_.empty()) return;
  write();  // whoever is killed at its first step has said something
  thread_ = std::thread([this] {
    std::unique_lock lock(mutex_);
    while (!ended_.wait_for(lock, kEvery, [this] { return end_; })) write();
    write();  // how it ended
  });
}

StateFile::~StateFile() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    end_ = true;
  }
  ended_.notify_all();
  thread_.join();
}

// Whole or not at all: the launcher reads at any time. What cannot be written is not missed by the job.
void StateFile::write() const {
  const std::string fresh = path_ + ".new";
  std::ofstream(fresh, std::ios::binary | std::ios::trunc) << text_();
  std::rename(fresh.c_str(), path_.c_str());
}

std::string read_state(const std::string& path) {
  std::error_code error;
  const auto written = std::filesystem::last_write_time(path, error);
  std::ifstream file(path, std::ios::binary);
  if (error || !file) return "";
  std::string text(kStateBytesMost, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(file.gcount()));
  const std::chrono::duration<double> age = std::filesystem::file_time_type::clock::now() - written;
  return text.empty() ? "" : absl::StrFormat("%.1f s before its end\n%s", std::max(age.count(), 0.0), text);
}

}  // namespace troupe::trace
