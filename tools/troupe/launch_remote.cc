#include "tools/troupe/launch_remote.h"

#include <fcntl.h>
#include <limits.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "comm/join/secret.h"

namespace troupe::tool {
namespace {

constexpr std::size_t kBeforeAgentMost = 1 << 20;

constexpr auto kAskEvery = std::chrono::seconds(1);
constexpr auto kSilentMost = std::chrono::seconds(5);

std::string this_program() {
  std::array<char, PATH_MAX> path{};
  const ssize_t length = readlink("/proc/self/exe", path.data(), path.size() - 1);
  return length > 0 ? std::string(path.data(), static_cast<std::size_t>(length)) : "troupe";
}

std::string this_folder() {
  std::array<char, PATH_MAX> path{};
  return getcwd(path.data(), path.size()) ? path.data() : ".";
}

}  // namespace

std::string shell_quoted(const std::string& text) { return absl::StrCat("'", absl::StrReplaceAll(text, {{"'", "'\\''"}}), "'"); }

RemoteCrew::RemoteCrew(std::string host, std::vector<std::string> ssh, const Guard& guard, CrewListener& listener)
    : Crew(std::move(host)), ssh_words_(std::move(ssh)), guard_(guard), listener_(listener) {}

RemoteCrew::~RemoteCrew() {
  abandon();
  Ending ending;
  while (ssh_.running() && !reap_child(ssh_, guard_, ending)) poll(nullptr, 0, 1);
  for (const int fd : {ssh_.in, ssh_.out, ssh_.err}) {
    if (fd >= 0) close(fd);
  }
}

void RemoteCrew::start(const std::vector<RankStart>& ranks, const std::vector<std::string>& program) {
  comm::FrameWriter writer(kStart);
  writer.text(host()).u32(static_cast<std::uint32_t>(program.size()));
  for (const auto& word : program) writer.text(word);
  writer.u32(static_cast<std::uint32_t>(ranks.size()));
  for (const auto& rank : ranks) {
    running_.push_back(rank.rank);
    writer.u32(static_cast<std::uint32_t>(rank.rank.value)).u32(static_cast<std::uint32_t>(rank.variables.size()));
    for (const auto& variable : rank.variables) writer.text(variable);
  }
  start_frame_ = std::move(writer).finish();
  if (start_frame_.size() > comm::kFrameBytesMost) return fail("the program's arguments and --env are too long", 2);
  std::vector<std::string> words = ssh_words_;
  words.push_back(host());
  words.push_back(absl::StrCat("cd ", shell_quoted(this_folder()), " && exec ", shell_quoted(this_program()), " launch --agent"));
  auto child = start_child({.program = words, .with_stdin = true}, guard_);
  if (!child.ok()) return fail(std::string(child.status().message()), kNotFound);
  ssh_ = *child;
}

void RemoteCrew::add_descriptors(std::vector<pollfd>& polled, bool room) const {
  if (room && ssh_.out >= 0) polled.push_back({ssh_.out, POLLIN, 0});
  if (room && ssh_.err >= 0) polled.push_back({ssh_.err, POLLIN, 0});
  if (ssh_.in >= 0 && !unsent_.empty()) polled.push_back({ssh_.in, POLLOUT, 0});
}

void RemoteCrew::ready(int fd) {
  if (fd == ssh_.in) return flush();
  std::string bytes;
  if (fd == ssh_.out && read_some(ssh_.out, bytes)) take(bytes);
  if (fd == ssh_.err && read_some(ssh_.err, bytes)) {
    err_lines_.add(bytes, [&](std::string_view line) {
      err_tail_.add(line);
      listener_.on_host_line(host(), line);
    });
  }
}

void RemoteCrew::take(const std::string& bytes) {
  heard_ = std::chrono::steady_clock::now();
  if (agent_speaks_) {
    splitter_.append(bytes);
  } else {
    before_agent_.append(bytes);
    const auto at = before_agent_.find(kAgentLine);
    if (at == std::string::npos) {
      if (before_agent_.size() > kBeforeAgentMost) fail("its shell writes without end, and no agent starts", 1);
      return;
    }
    out_lines_.add(before_agent_.substr(0, at), [&](std::string_view line) { listener_.on_host_line(host(), line); });
    splitter_.append(before_agent_.substr(at + kAgentLine.size()));
    before_agent_.clear();
    agent_speaks_ = true;
  }
  while (true) {
    auto frame = splitter_.next();
    if (!frame.ok()) return fail("its agent says what is no frame", 1);
    if (!*frame) return;
    handle(**frame);
  }
}

void RemoteCrew::handle(const std::string& frame) {
  comm::FrameReader reader(frame);
  switch (reader.type()) {
    case kReady: {
      const std::string build(reader.text()), ours = comm::program_build();
      if (build != ours)
        return fail(
            absl::StrCat(this_program(), " is ", build, " there and ", ours, " here: install the same program everywhere"), 1);
      return send(start_frame_);
    }
    case kOutput: {
      const Rank rank{reader.i32()};
      const auto stream = reader.u8() == 0 ? Stream::kOut : Stream::kErr;
      return listener_.on_output(rank, stream, std::string_view(frame).substr(6));
    }
    case kEnded: {
      const Rank rank{reader.i32()};
      const int code = reader.i32(), signal = reader.i32();
      const Ending ending{.code = code, .signal = signal, .last_state = std::string(reader.text())};
      if (std::erase(running_, rank) > 0) listener_.on_ended(rank, ending);
      return;
    }
    case kStopped: {
      const Rank rank{reader.i32()};
      return listener_.on_stopped(rank, reader.u8() != 0);
    }
    case kHere: return;  // take() has noted it
    case kFailed: {
      const int code = reader.i32();
      return fail(std::string(reader.text()), code);
    }
    default: return fail("its agent says what is no frame", 1);
  }
}

void RemoteCrew::fail(const std::string& what, int exit_code) {
  if (failed_) return;
  failed_ = true;
  listener_.on_crew_failed(absl::StrCat(what, " (on ", host(), ")"), exit_code);
  abandon();
}

void RemoteCrew::reap() {
  Ending ending;
  if (!reap_child(ssh_, guard_, ending)) return;
  for (int i = 0; i < 64; ++i) {
    ready(ssh_.out);
    ready(ssh_.err);
  }
  for (int* fd : {&ssh_.in, &ssh_.out, &ssh_.err}) {
    if (*fd >= 0) close(*fd);
    *fd = -1;
  }
  out_lines_.add(before_agent_, [&](std::string_view line) { listener_.on_host_line(host(), line); });
  for (auto* lines : {&out_lines_, &err_lines_}) lines->end([&](std::string_view line) { listener_.on_host_line(host(), line); });
  if (!running_.empty() && !failed_) {
    fail(absl::StrCat(agent_speaks_ ? "the connection was lost: " : "cannot start there: ", ssh_words_[0], " ", ending.text(), ", with ",
                      running_text()),
         ending.failed() ? ending.exit_code() : 1);
  }
}

void RemoteCrew::send(const std::string& frame) {
  unsent_.append(frame);
  flush();
}

void RemoteCrew::flush() {
  while (ssh_.in >= 0 && !unsent_.empty()) {
    const ssize_t count = write(ssh_.in, unsent_.data(), unsent_.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      if (errno != EAGAIN) unsent_.clear();  // its end is noticed by reap()
      return;
    }
    unsent_.erase(0, static_cast<std::size_t>(count));
  }
}

void RemoteCrew::signal(int number) {
  if (!agent_speaks_) {
    if (number != SIGKILL && number != SIGTERM && number != SIGINT) return;
    failed_ = true;  // it has started nobody
    return abandon();
  }
  send(std::move(comm::FrameWriter(kSignal).i32(number)).finish());
}

comm::Deadline RemoteCrew::keep_time(bool listens) {
  if (!agent_speaks_ || failed_ || !ssh_.running()) return comm::Deadline::max();
  const auto now = std::chrono::steady_clock::now();
  // Silence counts only while somebody listens: not when our reader takes nothing, nor while this process itself was stopped.
  if (!listens || now - std::exchange(timed_, now) > kSilentMost / 2) heard_ = now;
  if (now - heard_ >= kSilentMost) {
    fail(absl::StrCat("the link is cut or the host hangs: nothing was heard of it for ", kSilentMost / std::chrono::seconds(1), " s, with ",
                      running_text()),
         1);
    return comm::Deadline::max();
  }
  if (now >= ask_at_) {
    ask_at_ = now + kAskEvery;
    send(comm::FrameWriter(kAreYouThere).finish());
  }
  return std::min(ask_at_, heard_ + kSilentMost);
}

std::string RemoteCrew::running_text() const {
  return absl::StrCat(running_.size() == 1 ? "rank " : "ranks ",
                      absl::StrJoin(running_, ", ", [](std::string* out, Rank rank) { absl::StrAppend(out, rank.value); }));
}

void RemoteCrew::abandon() { kill_group(ssh_, SIGKILL); }

}  // namespace troupe::tool
