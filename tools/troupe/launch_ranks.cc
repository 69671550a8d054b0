#include "tools/troupe/launch_ranks.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace troupe::tool {
namespace {

constexpr int kFlushWithinMs = 5000;

Status cannot_write(const std::string& path, const std::string& why) {
  return absl::InvalidArgumentError(absl::StrCat("--log-dir: cannot write ", path, ": ", why));
}

// rank-3.log, or rank-3.log.K: K; else nothing.
std::optional<int> number_of_log(const std::string& name) {
  int rank = 0, number = 0;
  const auto end = name.find(".log");
  if (!name.starts_with("rank-") || end == std::string::npos || !absl::SimpleAtoi(name.substr(5, end - 5), &rank)) return std::nullopt;
  const std::string behind = name.substr(end + 4);
  if (behind.empty()) return 0;
  return behind[0] == '.' && absl::SimpleAtoi(behind.substr(1), &number) ? std::optional(number) : std::nullopt;
}

Status keep_older_logs(const std::string& folder) {
  std::vector<std::string> older;
  int number = 1;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    const auto found = number_of_log(name);
    if (found == 0) older.push_back(absl::StrCat(folder, "/", name));
    else if (found) number = std::max(number, *found + 1);
  }
  for (const auto& path : older) {
    std::filesystem::rename(path, absl::StrCat(path, ".", number), error);
    if (error) return cannot_write(path, error.message());
  }
  return ok();
}

}  // namespace

LaunchedRanks::LaunchedRanks(const std::vector<HostSlots>& hosts) : out_(STDOUT_FILENO), err_(STDERR_FILENO) {
  for (const auto& host : hosts) {
    for (int i = 0; i < host.slots; ++i) ranks_.emplace_back().host = host.host;
  }
}

Status LaunchedRanks::open_logs(const std::string& folder) {
  log_folder_ = folder;
  if (folder.empty()) return ok();
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  TROUPE_RETURN_IF_ERROR(keep_older_logs(folder));
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
    const std::string path = absl::StrCat(folder, "/rank-", rank, ".log");
    ranks_[rank].log.open(path, std::ios::binary | std::ios::trunc);
    if (!ranks_[rank].log) return cannot_write(path, std::strerror(errno));
  }
  return ok();
}

std::vector<Rank> LaunchedRanks::running() const {
  std::vector<Rank> left;
  for (int rank = 0; rank < count(); ++rank) {
    if (!ending(Rank{rank})) left.push_back(Rank{rank});
  }
  return left;
}

std::string LaunchedRanks::prefix(Rank rank) const { return absl::StrCat("[", rank.value, "] "); }

void LaunchedRanks::line(Rank rank, Stream stream, std::string_view text) {
  if (stream == Stream::kErr) at(rank).err_tail.add(text);
  (stream == Stream::kOut ? out_ : err_).line(prefix(rank), text);
  if (at(rank).log.is_open()) at(rank).log << text << '\n';
}

void LaunchedRanks::flush_log(Rank rank) {
  Launched& launched = at(rank);
  if (!launched.log.is_open() || launched.log.flush()) return;
  say(absl::StrCat("the log of rank ", rank.value, " in ", log_folder_, " cannot be written any more"));
  launched.log.close();
}

void LaunchedRanks::take_output(Rank rank, Stream stream, std::string_view bytes) {
  Launched& launched = at(rank);
  (stream == Stream::kOut ? launched.out : launched.err).add(bytes, [&](std::string_view text) { line(rank, stream, text); });
  flush_log(rank);
}

void LaunchedRanks::end(Rank rank, const Ending& ending) {
  Launched& launched = at(rank);
  launched.out.end([&](std::string_view text) { line(rank, Stream::kOut, text); });
  launched.err.end([&](std::string_view text) { line(rank, Stream::kErr, text); });
  flush_log(rank);
  launched.ending = ending;
}

void LaunchedRanks::flush() {
  out_.flush_within(kFlushWithinMs);
  err_.flush_within(kFlushWithinMs);
}

void LaunchedRanks::host_line(const std::string& host, std::string_view text) { err_.line(absl::StrCat("[", host, "] "), text); }

void LaunchedRanks::say_ending(Rank rank) {
  say(absl::StrCat("rank ", rank.value, " on ", host(rank), " ", ending(rank)->text()));
}

void LaunchedRanks::say_last_words(Rank rank) {
  const Launched& launched = at(rank);
  if (!launched.err_tail.lines().empty()) say(absl::StrCat("the last of what rank ", rank.value, " wrote to stderr:"));
  for (const auto& text : launched.err_tail.lines()) err_.line(prefix(rank), text);
  const std::vector<std::string> state = absl::StrSplit(launched.ending->last_state, '\n', absl::SkipEmpty());
  if (!state.empty()) say(absl::StrCat("what the actors of rank ", rank.value, " did, ", state[0], ":"));
  for (std::size_t i = 1; i < state.size(); ++i) err_.line(prefix(rank), state[i]);
}

std::string LaunchedRanks::text_of(const std::vector<Rank>& ranks) {
  return absl::StrCat(ranks.size() == 1 ? "rank " : "ranks ",
                      absl::StrJoin(ranks, ", ", [](std::string* out, Rank rank) { absl::StrAppend(out, rank.value); }));
}

}  // namespace troupe::tool
