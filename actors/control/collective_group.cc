#include "actors/control/collective_group.h"

#include <utility>

namespace troupe::actors {

CollectiveGroup::CollectiveGroup(comm::CollectiveEngine& engine, comm::GroupId group) : engine_(engine), group_(group) {
  on(&CollectiveGroup::requested);
  on(&CollectiveGroup::ended);
}

void CollectiveGroup::requested(CollectiveRequested message) {
  const auto [what, fresh] = names_.try_emplace(message.collective.what);
  if (fresh) what->second = name_for(what->first);
  open_.emplace(message.operation, Open{what->second, std::move(message.asker)});
  engine_.start(group_, message.operation, std::move(message.collective), [group = self(), operation = message.operation](Status result) {
    group.send(Ended{operation, std::move(result)});
  });
  show_state();
}

void CollectiveGroup::ended(Ended message) {
  if (!message.result.ok()) {
    fail(message.result);
    return;
  }
  const auto open = open_.extract(message.operation);
  send(open.mapped().asker, CollectiveDone{message.operation});
  show_state();
}

void CollectiveGroup::show_state() {
  if (open_.empty()) {
    set_state(trace::State::kIdle);
  } else {
    set_state(trace::State::kWaitingForCollective, open_.begin()->second.what, open_.begin()->first.value);
  }
}

}  // namespace troupe::actors
