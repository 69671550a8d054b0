// What one rank asks all, and what each answers, as the texts that comm/inspect carries.
// Threads: plain values, pure functions. Errors: kInvalidArgument: a text that is none; an answer's own error comes back with its code.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "runtime/base/status.h"

namespace troupe::actors {

struct Question {
  std::string verb;  // one of kVerbs in rank_answers.cc
  std::map<std::string, std::string> words{};

  std::string word(const std::string& key) const {
    const auto at = words.find(key);
    return at == words.end() ? "" : at->second;
  }
};

std::string to_text(const Question& question);
StatusOr<Question> question_from_text(std::string_view text);

// "0", or the code of what went wrong with its message, a newline, the answer.
std::string answer_to_text(const StatusOr<std::string>& answer);
StatusOr<std::string> answer_from_text(std::string_view text);

}  // namespace troupe::actors
