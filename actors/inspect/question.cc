#include "actors/inspect/question.h"

#include <nlohmann/json.hpp>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace troupe::actors {

using nlohmann::json;

std::string to_text(const Question& question) {
  return json{{"verb", question.verb}, {"words", question.words}}.dump(-1, ' ', false, json::error_handler_t::replace);
}

StatusOr<Question> question_from_text(std::string_view text) {
  const json parsed = json::parse(text, nullptr, false);
  const auto is_text = [](const json& value) { return value.is_string(); };
  if (!parsed.is_object() || !is_text(parsed.value("verb", json())) || !parsed.value("words", json()).is_object())
    return absl::InvalidArgumentError("a question that is none; do all ranks run the same build?");
  Question question{.verb = parsed["verb"]};
  for (const auto& [key, value] : parsed["words"].items()) {
    if (!is_text(value)) return absl::InvalidArgumentError(absl::StrCat("the word ", key, " of a question is no text"));
    question.words.emplace(key, value);
  }
  return question;
}

std::string answer_to_text(const StatusOr<std::string>& answer) {
  if (answer.ok()) return absl::StrCat("0\n", *answer);
  return absl::StrCat(static_cast<int>(answer.status().code()), "\n", std::string(answer.status().message()));
}

StatusOr<std::string> answer_from_text(std::string_view text) {
  const std::size_t end = text.find('\n');
  int code = 0;
  if (end == std::string_view::npos || !absl::SimpleAtoi(std::string(text.substr(0, end)), &code) || code < 0 || code > static_cast<int>(absl::StatusCode::kUnauthenticated))
    return absl::InvalidArgumentError("an answer that is none; do all ranks run the same build?");
  const std::string rest(text.substr(end + 1));
  if (code == 0) return rest;
  return Status(static_cast<absl::StatusCode>(code), rest);
}

}  // namespace troupe::actors
