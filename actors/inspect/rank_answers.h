// What one rank answers to who looks inside: verbs, a row each in rank_answers.cc.
// Threads: any but the transport's progress thread; called also while every actor is stuck: nothing here asks an actor.
// Errors: kNotFound: no such verb, or what it asks about is not in this rank; kPermissionDenied, kFailedPrecondition; kInvalidArgument: words that it cannot do with.
#pragma once

#include <string>

#include "actors/inspect/question.h"
#include "actors/inspect/rank_report.h"

namespace troupe::actors {

// Whether it asks the rank to change something.
bool changes_something(const Question& question);
// `is_authorised`: what changes something is done, else kPermissionDenied.
StatusOr<std::string> answer(const RankSources& rank, const Question& question, bool is_authorised = false);

}  // namespace troupe::actors
