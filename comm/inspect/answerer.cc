#include "comm/inspect/answerer.h"

#include <pthread.h>

#include <exception>
#include <utility>

#include "absl/strings/str_cat.h"
#include "comm/inspect/wire.h"

namespace troupe::comm {

Answerer::Answerer(Answer answer) : answer_(std::move(answer)), thread_([this] { run(); }) {
  pthread_setname_np(thread_.native_handle(), "inspector");
}

std::int64_t Answerer::submit(const std::string& question, Done done) {
  std::lock_guard lock(mutex_);
  ++numbers_;
  if (!closed_) jobs_.emplace(numbers_, Job{question, std::move(done)});
  changed_.notify_one();
  return numbers_;
}

void Answerer::withdraw(std::int64_t job) {
  std::lock_guard lock(mutex_);
  jobs_.erase(job);
}

void Answerer::close() {
  {
    std::lock_guard lock(mutex_);
    closed_ = true;
    jobs_.clear();
  }
  changed_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void Answerer::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return closed_ || !jobs_.empty(); });
    if (closed_) return;
    const Job job = std::move(jobs_.extract(jobs_.begin()).mapped());
    lock.unlock();
    job.done(compute(job.question));
    lock.lock();
  }
}

StatusOr<std::string> Answerer::compute(const std::string& question) const {
  try {
    std::string answer = answer_(question);
    if (answer.size() <= kAnswerBytesMost) return answer;
    return absl::ResourceExhaustedError(absl::StrCat("its answer has ", answer.size(), " bytes, and at most ", kAnswerBytesMost, " can travel"));
  } catch (const std::exception& exception) {
    return absl::InternalError(absl::StrCat("it could not answer: ", exception.what()));
  }
}

}  // namespace troupe::comm
