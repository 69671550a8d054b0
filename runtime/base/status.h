// Operating errors as values: absl::Status under our roof, and the two macros that pass them up.
//
// Errors: kUnavailable a link or device, try again; kAborted a step, the ledger decides; kInvalidArgument and
// kFailedPrecondition need a person; kNotFound, kAlreadyExists, kResourceExhausted (disk, memory), kDataLoss (torn or
// altered file) as named. A message says what was tried on what, what is allowed and what to do.
#pragma once

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace troupe {

using Status = absl::Status;
template <class T>
using StatusOr = absl::StatusOr<T>;

inline Status ok() { return absl::OkStatus(); }

}  // namespace troupe

#define TROUPE_CONCAT_INNER(a, b) a##b
#define TROUPE_CONCAT(a, b) TROUPE_CONCAT_INNER(a, b)

#define TROUPE_RETURN_IF_ERROR(expression)                        \
  do {                                                            \
    if (::troupe::Status status_ = (expression); !status_.ok()) { \
      return status_;                                             \
    }                                                             \
  } while (false)

#define TROUPE_ASSIGN_OR_RETURN(declaration, expression) \
  TROUPE_ASSIGN_OR_RETURN_IMPL(TROUPE_CONCAT(status_or_, __LINE__), declaration, expression)
#define TROUPE_ASSIGN_OR_RETURN_IMPL(temporary, declaration, expression) \
  auto temporary = (expression);                                         \
  if (!temporary.ok()) return temporary.status();                        \
  declaration = std::move(temporary).value()
