#include "actors/plan/placement.h"

#include "absl/strings/str_cat.h"

namespace troupe::plan {

StatusOr<Placement> Placement::of(int replicas, int stages, int processes) {
  Placement placement{.replicas = replicas, .stages = stages};
  if (processes == 0) return placement;
  placement.parts = processes / replicas;
  if (processes % replicas == 0 && placement.parts >= 1 && stages % placement.parts == 0) return placement;
  return absl::InvalidArgumentError(absl::StrCat(
      processes, processes == 1 ? " process" : " processes", " for parallelism.data_parallel = ", replicas, " x parallelism.pipeline = ",
      stages, ": each process hosts one replica, or as many stages of it as the others. Start ", placement.worlds(),
      " (troupe launch --nproc), or change the config"));
}

std::vector<Rank> Placement::ranks_of_part(int part) const {
  std::vector<Rank> ranks;
  for (int replica = 0; replica < replicas; ++replica) ranks.push_back(rank_of(replica, part));
  return ranks;
}

std::string Placement::worlds() const {
  std::vector<int> allowed;
  for (int cut = 1; cut <= stages; ++cut) {
    if (stages % cut == 0) allowed.push_back(replicas * cut);
  }
  std::string text;
  for (std::size_t i = 0; i < allowed.size(); ++i) {
    absl::StrAppend(&text, i == 0 ? "" : i + 1 == allowed.size() ? " or " : ", ", allowed[i]);
  }
  return text;
}

}  // namespace troupe::plan
