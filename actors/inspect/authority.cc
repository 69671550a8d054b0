#include "actors/inspect/authority.h"

#include <algorithm>
#include <thread>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "comm/join/secret.h"

namespace troupe::actors {
namespace {

constexpr const char *kProof = "proof", *kBy = "by", *kAt = "at";

std::int64_t unix_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace

Authority::Authority(const std::string& key, int rank, int world)
    : key_(key), token_(key.empty() ? "" : absl::BytesToHexString(comm::proof_of(key, "token"))), rank_(rank), world_(world) {}

Status Authority::check(const std::string& shown) {
  if (!token_.empty() && comm::same_proof(shown, token_)) return ok();
  ++refused_;
  if (token_.empty()) return absl::PermissionDeniedError("nobody may tell this job anything: its program gave the inspector no key");
  const bool too_many = wrong_.fetch_add(1) >= kWrongMost;
  if (!too_many) std::this_thread::sleep_for(kWrongWaits);
  --wrong_;
  if (too_many) return absl::ResourceExhaustedError("too many wrong tokens at a time");
  return absl::UnauthenticatedError(shown.empty() ? "this needs the job's token, as Authorization: Bearer TOKEN; it is in JOB.RANK.token of the runtime folder"
                                                  : "this is not the job's token; it is in JOB.RANK.token of the runtime folder, and another for each run");
}

// Of all that the question says.
std::string Authority::proof(const Question& question) const {
  Question said = question;
  said.words.erase(kProof);
  return absl::BytesToHexString(comm::proof_of(key_, absl::StrCat("question", to_text(said))));
}

void Authority::sign(Question& question) {
  {
    const std::lock_guard lock(mutex_);
    signed_at_ = std::max(signed_at_ + 1, unix_ns());
    question.words[kAt] = absl::StrCat(signed_at_);
  }
  question.words[kBy] = absl::StrCat(rank_);
  question.words[kProof] = proof(question);
}

StatusOr<std::string> Authority::once(const Question& question, const std::function<StatusOr<std::string>()>& carry_out) {
  int by = -1;
  std::int64_t at = 0;
  const bool is_proved = !key_.empty() && comm::same_proof(question.word(kProof), proof(question)) && absl::SimpleAtoi(question.word(kBy), &by) &&
                         absl::SimpleAtoi(question.word(kAt), &at) && by >= 0 && by < world_ && at > 0;
  if (!is_proved) {
    ++refused_;
    return absl::PermissionDeniedError("whoever asks that has not proved that it may");
  }
  const std::lock_guard lock(mutex_);
  Last& last = last_of_[by];
  if (at > last.at) last = {.at = at, .answer = carry_out()};
  if (at == last.at) return last.answer;  // also where it comes again, on another way through the tree
  ++refused_;
  return absl::PermissionDeniedError(absl::StrCat("rank ", by, " has said something newer already"));
}

}  // namespace troupe::actors
