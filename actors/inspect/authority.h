// Who may tell a job's actors what to do: whoever shows the job's token, and a rank that proves that it was shown to it.
//
// All ranks know one key. The token is derived from it, and so is the proof that goes with a question that changes something (README.md):
// who knows the token cannot make proofs, who sees a proof cannot use it again.
// Threads: any. Errors: kUnauthenticated: no token or a wrong one; kResourceExhausted: too many wrong ones at a time; kPermissionDenied: a
// question that nobody may ask, or one that came too late. Limits: a wrong token is answered after kWrongWaits, kWrongMost at a time; of each
// rank the last question is remembered. Invariants: a right token is taken at once, however many wrong ones come
// (Authority.WrongTokensKeepNobodyOut); a question is carried out once, however often it comes (Authority.AQuestionIsCarriedOutOnce).
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>

#include "actors/inspect/question.h"

namespace troupe::actors {

class Authority {
 public:
  static constexpr auto kWrongWaits = std::chrono::milliseconds(100);
  static constexpr int kWrongMost = 2;

  // `key` is the same in all ranks; without one nobody may tell anything.
  Authority(const std::string& key, int rank, int world);

  // 64 hexadecimal digits; empty without a key.
  const std::string& token() const { return token_; }
  // Whether `shown` is the token. May take kWrongWaits.
  Status check(const std::string& shown);
  // Something else was refused at a door.
  void refuse() { ++refused_; }
  std::int64_t refused() const { return refused_; }

  // Says in the question that this rank was authorised.
  void sign(Question& question);
  // What `carry_out` gives, if the question is of a rank that was.
  StatusOr<std::string> once(const Question& question, const std::function<StatusOr<std::string>()>& carry_out);

 private:
  std::string proof(const Question& question) const;

  const std::string key_, token_;
  const int rank_, world_;
  std::atomic<std::int64_t> refused_{0};
  std::atomic<int> wrong_{0};  // that wait
  std::mutex mutex_;           // guards what follows
  std::int64_t signed_at_ = 0;
  struct Last {
    std::int64_t at = 0;
    StatusOr<std::string> answer = std::string();
  };
  std::map<int, Last> last_of_;  // by rank
};

}  // namespace troupe::actors
