#include "runtime/base/first_cause.h"

#include "absl/strings/cord.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace troupe {
namespace {

constexpr const char* kPayload = "troupe/first-cause";  // the rank, a space, the text

}  // namespace

Status due_to(Rank rank, const std::string& text) {
  Status status = absl::UnavailableError(text);
  status.SetPayload(kPayload, absl::Cord(absl::StrCat(rank.value, " ", text)));
  return status;
}

std::optional<FirstCause> first_cause(const Status& status) {
  const auto payload = status.GetPayload(kPayload);
  if (!payload) return std::nullopt;
  const std::string said(*payload);
  const auto space = said.find(' ');
  FirstCause cause;
  if (space == std::string::npos || !absl::SimpleAtoi(said.substr(0, space), &cause.rank.value)) return std::nullopt;
  cause.text = said.substr(space + 1);
  return cause;
}

Status reworded(const Status& status, const std::string& message) {
  Status other(status.code(), message);
  if (const auto payload = status.GetPayload(kPayload)) other.SetPayload(kPayload, *payload);
  return other;
}

}  // namespace troupe
