#include "comm/join/environment.h"

#include <cstdlib>
#include <initializer_list>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "comm/join/store_relay.h"

namespace troupe::comm {
namespace {

// Ports that programs without a launcher derive from their job's id: below the range that systems give out on their own.
constexpr std::uint64_t kDerivedPortFirst = 20000, kDerivedPorts = 10000;
int derived_port(std::uint64_t of) { return static_cast<int>(kDerivedPortFirst + of % kDerivedPorts); }

// The names under which one launcher says the four numbers.
struct Names {
  const char* launcher;
  const char *rank, *world, *local_rank, *local_world;
};
constexpr Names kTroupe{"troupe launch", "TROUPE_RANK", "TROUPE_WORLD_SIZE", "TROUPE_LOCAL_RANK", "TROUPE_LOCAL_WORLD_SIZE"};
constexpr Names kTorchrun{"torchrun variables", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"};
constexpr Names kSlurm{"Slurm", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", "SLURM_STEP_TASKS_PER_NODE"};
constexpr Names kOpenMpi{"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
                         "OMPI_COMM_WORLD_LOCAL_SIZE"};

// What one launcher says of this process.
struct Said {
  Names names;
  Place place;
};
using MaybeSaid = StatusOr<std::optional<Said>>;

class Variables {
 public:
  explicit Variables(const EnvironmentLookup& lookup) : lookup_(lookup) {}

  std::optional<std::string> get(const char* name) const {
    auto value = lookup_(name);
    if (value && value->empty()) value.reset();
    return value;
  }
  bool has(const char* name) const { return get(name).has_value(); }
  std::string text(const char* name) const { return get(name).value_or(""); }

  // All of `needed`, or none of them and of `more`.
  StatusOr<bool> has_all_or_none(const char* launcher, std::initializer_list<const char*> needed,
                                 std::initializer_list<const char*> more = {}) const {
    std::vector<std::string> set, missing;
    for (const char* name : needed) {
      if (has(name)) set.push_back(absl::StrCat(name, "=", text(name)));
      else missing.push_back(name);
    }
    for (const char* name : more) {
      if (has(name)) set.push_back(absl::StrCat(name, "=", text(name)));
    }
    if (set.empty()) return false;
    if (missing.empty()) return true;
    return absl::InvalidArgumentError(absl::StrCat(absl::StrJoin(set, ", "), " is set but ", absl::StrJoin(missing, ", "),
                                                   missing.size() == 1 ? " is" : " are", " not: set all variables of ", launcher,
                                                   ", or unset these to run alone"));
  }
  StatusOr<int> number(const char* name, int least, int most) const { return number_in(name, text(name), least, most); }
  static StatusOr<int> number_in(const char* name, const std::string& value, int least, int most) {
    int number = 0;
    if (!absl::SimpleAtoi(value, &number) || number < least || number > most) {
      return absl::InvalidArgumentError(absl::StrCat(name, "=", value, " must be a whole number in ", least, " .. ", most,
                                                     ": set it, or unset the launcher's variables to run alone"));
    }
    return number;
  }

 private:
  const EnvironmentLookup& lookup_;
};

// The four numbers; `local_world` overrides what its variable says.
StatusOr<Place> read_numbers(const Variables& variables, const Names& names, std::optional<int> local_world = {}) {
  Place place;
  place.found_in = names.launcher;
  TROUPE_ASSIGN_OR_RETURN(const int rank, variables.number(names.rank, 0, kWorldMost - 1));
  place.rank = Rank{rank};
  TROUPE_ASSIGN_OR_RETURN(place.world, variables.number(names.world, 1, kWorldMost));
  TROUPE_ASSIGN_OR_RETURN(place.local_rank, variables.number(names.local_rank, 0, kWorldMost - 1));
  if (local_world) {
    place.local_world = *local_world;
  } else {
    TROUPE_ASSIGN_OR_RETURN(place.local_world, variables.number(names.local_world, 1, kWorldMost));
  }
  const auto refuse = [&](const char* small, int small_value, const char* large, int large_value, const char* relation) {
    return absl::InvalidArgumentError(absl::StrCat(small, "=", small_value, " must be ", relation, " ", large, "=", large_value,
                                                   ": correct the variables of ", names.launcher,
                                                   ", or unset them to run alone"));
  };
  if (rank >= place.world) return refuse(names.rank, rank, names.world, place.world, "less than");
  if (place.local_world > place.world) return refuse(names.local_world, place.local_world, names.world, place.world, "at most");
  if (place.local_rank >= place.local_world)
    return refuse(names.local_rank, place.local_rank, names.local_world, place.local_world, "less than");
  return place;
}

MaybeSaid said_by_troupe(const Variables& variables) {
  TROUPE_ASSIGN_OR_RETURN(const bool set, variables.has_all_or_none(kTroupe.launcher, {kTroupe.rank, kTroupe.world,
                                                                                       kTroupe.local_rank, kTroupe.local_world}));
  if (!set) return std::nullopt;
  TROUPE_ASSIGN_OR_RETURN(Place place, read_numbers(variables, kTroupe));
  if (place.world > 1) {
    for (const char* name : {"TROUPE_STORE", "TROUPE_SECRET"}) {
      if (!variables.has(name)) {
        return absl::InvalidArgumentError(
            absl::StrCat(kTroupe.rank, " and ", kTroupe.world, "=", place.world, " are set but ", name,
                         " is not: start the job with troupe launch, or unset TROUPE_* to run alone"));
      }
    }
  }
  return Said{kTroupe, place};
}

bool is_loopback(const std::string& host) { return host == "localhost" || host == "::1" || host.starts_with("127."); }

// And not somebody who set RANK by hand.
bool started_by_torchrun(const Variables& variables) {
  return variables.has(kTorchrun.rank) && (variables.has("TORCHELASTIC_RUN_ID") || variables.has("TORCHELASTIC_RESTART_COUNT"));
}

// MASTER_ADDR and MASTER_PORT alone are no set: people export them for other programs.
MaybeSaid said_by_torchrun(const Variables& variables) {
  if (!variables.has(kTorchrun.rank) && !variables.has(kTorchrun.world) && !variables.has(kTorchrun.local_rank) &&
      !variables.has(kTorchrun.local_world))
    return std::nullopt;
  TROUPE_RETURN_IF_ERROR(
      variables
          .has_all_or_none("torchrun", {kTorchrun.rank, kTorchrun.world, kTorchrun.local_rank, "MASTER_ADDR", "MASTER_PORT"},
                           {kTorchrun.local_world})
          .status());
  const std::string host = variables.text("MASTER_ADDR");
  std::optional<int> local_world;
  if (!variables.has(kTorchrun.local_world)) {
    if (!is_loopback(host)) {
      return absl::InvalidArgumentError(absl::StrCat("MASTER_ADDR=", host, " may be another machine's and ",
                                                     kTorchrun.local_world,
                                                     " is not set: set it to the number of ranks on this machine"));
    }
    TROUPE_ASSIGN_OR_RETURN(local_world, variables.number(kTorchrun.world, 1, kWorldMost));
  }
  TROUPE_ASSIGN_OR_RETURN(Place place, read_numbers(variables, kTorchrun, local_world));
  TROUPE_ASSIGN_OR_RETURN(place.store_port, variables.number("MASTER_PORT", 1, 65535));
  place.store_host = host;
  place.secret = absl::StrCat("torchrun ", variables.text("TORCHELASTIC_RUN_ID"), " ", host, " ", place.store_port);
  // On several nodes the count says nothing: an agent counts only those failures that it has seen itself.
  if (place.local_world == place.world) place.incarnation = variables.text("TORCHELASTIC_RESTART_COUNT");
  // There torchrun's own agent listens on MASTER_PORT, and rank 0 must take another.
  if (variables.text("TORCHELASTIC_USE_AGENT_STORE") == "True") place.store_port += place.store_port < 65535 ? 1 : -1;
  return Said{kTorchrun, place};
}

// By all launchers around this process that count that: torchrun begins from 0 when Slurm has started it again, and Slurm says nothing before it has.
int restarts_said(const Variables& variables) {
  const bool is_slurms_first = !variables.text("SLURM_JOB_ID").empty() && variables.text("SLURM_RESTART_COUNT").empty();
  int restarts = is_slurms_first ? 0 : -1;
  for (const char* name : {"TORCHELASTIC_RESTART_COUNT", "SLURM_RESTART_COUNT"}) {
    if (const auto count = variables.number(name, 0, 1'000'000); count.ok()) restarts = std::max(0, restarts) + *count;
  }
  return restarts;
}

// Tasks on a node of "2(x3),1": nodes 0 to 2 have 2, node 3 has 1. None for one that is none.
std::optional<int> tasks_on_node(const std::string& tasks_per_node, int node) {
  for (const std::string& part : std::vector<std::string>(absl::StrSplit(tasks_per_node, ','))) {
    const std::vector<std::string> halves = absl::StrSplit(part, absl::MaxSplits("(x", 1));
    int tasks = 0, nodes = 1;
    if (!absl::SimpleAtoi(halves[0], &tasks)) return std::nullopt;
    if (halves.size() == 2 && (!halves[1].ends_with(')') || !absl::SimpleAtoi(halves[1].substr(0, halves[1].size() - 1), &nodes)))
      return std::nullopt;
    if (node < nodes) return tasks;
    node -= nodes;
  }
  return std::nullopt;
}

// Slurm numbers the steps that are no srun from here: batch script, interactive shell, extern.
constexpr std::uint64_t kSlurmSpecialSteps = 0xfffffff0;

std::optional<std::uint64_t> slurm_step(const Variables& variables) {
  std::uint64_t step = 0;
  if (!absl::SimpleAtoi(variables.text("SLURM_STEP_ID"), &step) || step >= kSlurmSpecialSteps) return std::nullopt;
  return step;
}

MaybeSaid said_by_slurm(const Variables& variables) {
  const auto step = slurm_step(variables);
  if (!step) return std::nullopt;
  TROUPE_ASSIGN_OR_RETURN(const bool set,
                          variables.has_all_or_none("srun", {kSlurm.rank, kSlurm.world, kSlurm.local_rank, "SLURM_JOB_ID"}));
  if (!set) return std::nullopt;
  TROUPE_ASSIGN_OR_RETURN(const int world, variables.number(kSlurm.world, 1, kWorldMost));
  if (world == 1) return std::nullopt;
  const std::string list = variables.text("SLURM_STEP_NODELIST"), per_node = variables.text(kSlurm.local_world),
                    node = variables.text("SLURM_NODEID");
  std::optional<int> local_world;
  if (per_node.empty() && list.find_first_of(",[") == std::string::npos) {
    local_world = world;  // one node
  } else {
    TROUPE_ASSIGN_OR_RETURN(const int index, Variables::number_in("SLURM_NODEID", node.empty() ? "0" : node, 0, kWorldMost));
    local_world = tasks_on_node(per_node, index);
  }
  if (!local_world || *local_world < 1) {
    return absl::InvalidArgumentError(absl::StrCat(kSlurm.local_world, "=", per_node,
                                                   " does not say how many tasks node SLURM_NODEID=", node,
                                                   " of SLURM_STEP_NODELIST=", list, " has: start with srun"));
  }
  TROUPE_ASSIGN_OR_RETURN(Place place, read_numbers(variables, kSlurm, local_world));
  std::uint64_t job = 0;
  if (!absl::SimpleAtoi(variables.text("SLURM_JOB_ID"), &job)) {
    return absl::InvalidArgumentError(absl::StrCat("SLURM_JOB_ID=", variables.text("SLURM_JOB_ID"),
                                                   " must be a number: start with srun, or unset SLURM_STEP_ID to run alone"));
  }
  // Rank 0 is on the step's first node. Its name need not be one that resolves; then the launching node's address may be its own.
  std::vector<std::string> hosts;
  if (place.local_world == place.world) hosts.push_back("127.0.0.1");
  else {
    if (const std::string first = first_of_node_list(list); !first.empty()) hosts.push_back(first);
    if (variables.has("SLURM_LAUNCH_NODE_IPADDR")) hosts.push_back(variables.text("SLURM_LAUNCH_NODE_IPADDR"));
  }
  if (hosts.empty() && !variables.has("TROUPE_STORE")) {
    return absl::InvalidArgumentError(
        "neither SLURM_STEP_NODELIST nor SLURM_LAUNCH_NODE_IPADDR says where rank 0 is: set TROUPE_STORE=host:port of it");
  }
  place.store_host = absl::StrJoin(hosts, ",");
  if (place.local_world < place.world) {
    place.store_guess = absl::StrCat("Slurm does not say where rank 0 is, and the first node of SLURM_STEP_NODELIST=", list,
                                     " or SLURM_LAUNCH_NODE_IPADDR is taken for it; where that is wrong, set TROUPE_STORE=host:port of rank 0");
  }
  place.store_port = derived_port(job + 101 * *step);
  place.incarnation = variables.text("SLURM_RESTART_COUNT");
  place.secret = absl::StrCat("Slurm ", variables.text("SLURM_CLUSTER_NAME"), " ", job, ".", *step);
  return Said{kSlurm, place};
}

// The part of mpirun's address: "250544128.0;tcp://192.0.2.2,10.0.0.1:56015;tcp6://...": job id and hosts.
struct MpirunAddress {
  std::uint64_t job = 0;
  std::string hosts;
};
std::optional<MpirunAddress> parse_mpirun_address(const std::string& uri) {
  MpirunAddress address;
  if (!absl::SimpleAtoi(uri.substr(0, uri.find_first_of(".;")), &address.job)) return std::nullopt;
  for (const std::string& part : std::vector<std::string>(absl::StrSplit(uri, ';'))) {
    if (!part.starts_with("tcp://")) continue;
    address.hosts = part.substr(6, part.rfind(':') - 6);
    return address;
  }
  return std::nullopt;
}

MaybeSaid said_by_open_mpi(const Variables& variables) {
  TROUPE_ASSIGN_OR_RETURN(const bool set, variables.has_all_or_none("mpirun", {kOpenMpi.rank, kOpenMpi.world, kOpenMpi.local_rank,
                                                                               kOpenMpi.local_world}));
  if (!set) return std::nullopt;
  TROUPE_ASSIGN_OR_RETURN(Place place, read_numbers(variables, kOpenMpi));
  const std::string uri = variables.text("OMPI_MCA_orte_hnp_uri"), name_space = variables.text("PMIX_NAMESPACE");
  const auto mpirun = parse_mpirun_address(uri);
  if (mpirun) place.store_host = mpirun->hosts;
  if (place.local_world == place.world) place.store_host = "127.0.0.1";
  if (mpirun && place.local_world < place.world) {
    place.store_guess =
        "Open MPI says where mpirun runs (OMPI_MCA_orte_hnp_uri) and not where rank 0 does, and that host is taken for it; where that is "
        "wrong, start mpirun on rank 0's host, or set TROUPE_STORE=host:port of rank 0 with mpirun -x";
  }
  if (mpirun) {
    place.store_port = derived_port(mpirun->job >> 16 ^ mpirun->job);
  } else {
    std::uint64_t hash = 14695981039346656037u;  // FNV-1a
    for (const char c : name_space) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211u;
    place.store_port = derived_port(hash);
  }
  if (place.store_host.empty() && place.world > 1 && !variables.has("TROUPE_STORE")) {
    return absl::InvalidArgumentError(absl::StrCat(
        "OMPI_MCA_orte_hnp_uri=", uri, " does not say where mpirun runs: set TROUPE_STORE=host:port of rank 0 with mpirun -x"));
  }
  // A random number of 128 bits that mpirun gives to the job's processes alone, where it is there.
  place.secret = absl::StrCat("Open MPI ", variables.text("OMPI_MCA_orte_precondition_transports"), " ", uri, " ", name_space);
  return Said{kOpenMpi, place};
}

Status agree(const Said& a, const Said& b) {
  const auto compare = [&](const char* x, int value_x, const char* y, int value_y) -> Status {
    if (value_x == value_y) return ok();
    return absl::InvalidArgumentError(absl::StrCat(x, " says ", value_x, " (", a.names.launcher, ") but ", y, " says ", value_y,
                                                   " (", b.names.launcher,
                                                   "): unset the variables of the one that did not start this process"));
  };
  TROUPE_RETURN_IF_ERROR(compare(a.names.rank, a.place.rank.value, b.names.rank, b.place.rank.value));
  TROUPE_RETURN_IF_ERROR(compare(a.names.world, a.place.world, b.names.world, b.place.world));
  TROUPE_RETURN_IF_ERROR(compare(a.names.local_rank, a.place.local_rank, b.names.local_rank, b.place.local_rank));
  return compare(a.names.local_world, a.place.local_world, b.names.local_world, b.place.local_world);
}

}  // namespace

EnvironmentLookup process_environment() {
  return [](const char* name) -> std::optional<std::string> {
    const char* value = std::getenv(name);
    return value ? std::optional<std::string>(value) : std::nullopt;
  };
}

StatusOr<HostPort> parse_host_port(const std::string& text) {
  const auto colon = text.rfind(':');
  HostPort parsed;
  if (colon != std::string::npos && absl::SimpleAtoi(text.substr(colon + 1), &parsed.port) && parsed.port >= 1 &&
      parsed.port <= 65535) {
    parsed.host = text.substr(0, colon);
    if (parsed.host.starts_with('[') && parsed.host.ends_with(']')) parsed.host = parsed.host.substr(1, parsed.host.size() - 2);
  }
  if (parsed.host.empty())
    return absl::InvalidArgumentError(absl::StrCat("'", text, "' must be host:port with a port in 1 .. 65535"));
  return parsed;
}

std::string first_of_node_list(const std::string& list) {
  std::string first;
  for (std::size_t at = 0; at < list.size() && list[at] != ','; ++at) {
    if (list[at] != '[') {
      first += list[at];
      continue;
    }
    const auto closing = list.find(']', at);
    if (closing == std::string::npos) return "";
    first += list.substr(at + 1, list.find_first_of(",-]", at) - at - 1);
    at = closing;
  }
  return first;
}

StatusOr<Place> find_place(const EnvironmentLookup& environment) {
  const Variables variables(environment);
  std::vector<Said> said;
  const auto ask = [&](MaybeSaid (*launcher)(const Variables&)) -> Status {
    TROUPE_ASSIGN_OR_RETURN(auto answer, launcher(variables));
    if (answer) said.push_back(*std::move(answer));
    return ok();
  };
  // From the innermost: what a launcher around another says is of that one, not of this process.
  std::vector<std::string> around;
  TROUPE_RETURN_IF_ERROR(ask(said_by_troupe));
  TROUPE_RETURN_IF_ERROR(ask(said_by_torchrun));
  const bool inner = variables.has(kTroupe.rank) || (!said.empty() && started_by_torchrun(variables));
  if (!inner) TROUPE_RETURN_IF_ERROR(ask(said_by_open_mpi));
  else if (variables.has(kOpenMpi.rank)) around.push_back(kOpenMpi.launcher);
  if (!inner && !variables.has(kOpenMpi.rank)) TROUPE_RETURN_IF_ERROR(ask(said_by_slurm));
  else if (slurm_step(variables)) around.push_back(kSlurm.launcher);
  if (said.empty()) {
    if (variables.has("TROUPE_STORE")) {
      return absl::InvalidArgumentError(
          absl::StrCat("TROUPE_STORE=", variables.text("TROUPE_STORE"),
                       " is set but TROUPE_RANK is not: start the job with troupe launch, or unset it to run alone"));
    }
    // Else each of its processes would be a job of its own. A step of Slurm's with one task has it too, and is alone.
    if (variables.has("PMIX_RANK") && !slurm_step(variables)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "PMIX_RANK=", variables.text("PMIX_RANK"), " is set by a launcher whose environment does not say how many ranks the job has: start with "
          "mpirun, srun or troupe launch, set RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR and MASTER_PORT as torchrun does, or "
          "unset PMIX_RANK to run alone"));
    }
    Place alone;
    alone.found_in = "alone";
    alone.restarts = restarts_said(variables);
    return alone;
  }
  for (std::size_t i = 1; i < said.size(); ++i) TROUPE_RETURN_IF_ERROR(agree(said[0], said[i]));
  Place place = said[0].place;
  place.restarts = restarts_said(variables);
  if (!around.empty()) absl::StrAppend(&place.found_in, " inside ", absl::StrJoin(around, " inside "));
  if (const auto store = variables.get("TROUPE_STORE")) {
    auto parsed = parse_host_port(*store);
    if (!parsed.ok()) return absl::InvalidArgumentError(absl::StrCat("TROUPE_STORE=", *store, ": ", parsed.status().message()));
    place.store_host = parsed->host;
    place.store_port = parsed->port;
    place.store_guess.clear();
  }
  if (const auto secret = variables.get("TROUPE_SECRET")) place.secret = *secret;
  if (!place.incarnation.empty()) absl::StrAppend(&place.secret, " restart ", place.incarnation);
  if (said[0].names.launcher == kTroupe.launcher) {
    place.relay = variables.text("TROUPE_RELAY");
    return place;
  }
  place.hosts_store = place.rank.value == 0 && place.world > 1;
  if (place.local_world > 1 && place.local_world < place.world) {
    place.relay = relay_name(place.secret);
    place.hosts_relay = place.local_rank == 0 && !place.hosts_store;
  }
  return place;
}

}  // namespace troupe::comm
