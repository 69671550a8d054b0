#include "tools/troupe/signal_watch.h"

#include <unistd.h>

#include <cstdio>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "runtime/trace/text.h"
#include "tools/troupe/ignored_signals.h"
#include "tools/troupe/text_by_rank.h"

namespace troupe::tool {
namespace {

using namespace std::chrono_literals;

constexpr auto kSameRequestWithin = 1s;
constexpr auto kEndsByItselfWithin = 1s;  // the wait for the others is cancelled; looking up a name, or reading, is not

std::string name_of(int signal) { return absl::StrCat("SIG", sigabbrev_np(signal)); }

}  // namespace

SignalWatch::SignalWatch() {
  sigemptyset(&signals_);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2}) sigaddset(&signals_, signal);
  pthread_sigmask(SIG_BLOCK, &signals_, nullptr);
  thread_ = std::thread([this] { run(); });
}

Status SignalWatch::met(comm::JobWorld& world) {
  const std::lock_guard lock(mutex_);
  world_ = &world;
  return cancel_.status();
}

void SignalWatch::watch(actors::LocalReplicas& ranks) {
  const std::lock_guard lock(mutex_);
  ranks_ = &ranks;
}

void SignalWatch::end() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  ended_.notify_one();
  pthread_kill(thread_.native_handle(), SIGUSR1);  // out of sigwait
  thread_.join();
}

void SignalWatch::run() {
  int signal = 0;
  while (sigwait(&signals_, &signal) == 0) {
    std::unique_lock lock(mutex_);
    if (ending_) return;
    if (ignored_at_start(signal)) continue;
    if (signal == SIGQUIT) {
      std::fputs(ranks_ ? text_by_rank(*ranks_, trace::to_text).c_str() : "troupe: no actors yet\n", stderr);
    } else if (ranks_) {
      stop_job(signal);
    } else {
      return end_process(signal, lock);
    }
  }
}

void SignalWatch::end_process(int signal, std::unique_lock<std::mutex>& lock) {
  early_ = signal;
  cancel_.request(absl::StrCat(name_of(signal), " came before the training began"));
  const Status why = cancel_.status(), sooner = world_ ? world_->give_up(why) : ok();
  std::fprintf(stderr, "troupe: %s%s\n", sooner.ok() ? "ended: " : "", std::string((sooner.ok() ? why : sooner).message()).c_str());
  if (!world_ && ended_.wait_for(lock, kEndsByItselfWithin, [this] { return ending_; })) return;
  _exit(128 + signal);
}

void SignalWatch::stop_job(int signal) {
  if (signal != SIGUSR1 && signal != SIGUSR2) {
    const auto now = std::chrono::steady_clock::now();
    if (signal == first_ && now - first_at_ < kSameRequestWithin) return;
    if (first_ != 0) _exit(128 + signal);
    first_ = signal;
    first_at_ = now;
  }
  ranks_->request_stop(absl::StrCat("signal ", name_of(signal)));
}

}  // namespace troupe::tool
