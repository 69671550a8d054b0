// The last thing that the processes of a job do together: each learns that all the others have come to the end too.
//
// Twice: who has left the second meeting stops its transport, which would look like a death to one that is still in the first; but all have
// left the first by then. So how the first went counts, and nobody asks how the second did.
// Operations -1 and -2 of the group are theirs.
//
// Threads: any but the progress thread, once in a job. Errors: the cause, if a member has gone before it came; kDeadlineExceeded names who
// has not come.
// Invariants: JobGraph.EndsEverywhereWhenAnyActorFinishes, JobEnd.*
#pragma once

#include <chrono>

#include "comm/collective/engine.h"

namespace troupe::actors {

// Waits for the others, in each meeting at most `within`.
Status meet_at_the_end(comm::CollectiveEngine& engine, comm::GroupId everybody, std::chrono::nanoseconds within);
// The same without waiting and without a deadline, for the deterministic world.
void meet_at_the_end(comm::CollectiveEngine& engine, comm::GroupId everybody, comm::Completion met);

}  // namespace troupe::actors
