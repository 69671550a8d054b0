// Who this process is in its job, read from what the program that started it left in the environment.
//
// Four programs are understood, and `troupe train` needs no flag for any: `troupe launch`, torchrun (or whatever sets its
// variables), Slurm's srun, Open MPI's mpirun. One may have started another (srun torchrun, srun or mpirun troupe launch, mpirun in a
// Slurm step): the innermost counts, and found_in names those around it. That is `troupe launch` or torchrun, known by TORCHELASTIC_*; else
// mpirun; else srun. RANK and the like without TORCHELASTIC_* may be anybody's: they must agree with what the others say, as `troupe launch`
// and torchrun with each other. The first of those named here then says where the store is. Nothing set: the process is alone. PMIx is
// understood as far as mpirun and srun speak of it in their own variables; PMIX_RANK alone is an error.
//   TROUPE_STORE=host:port and TROUPE_SECRET may be set beside any of them, and win.
// Without our launcher a host with several ranks, in a job of several hosts, has a relay (store_relay.h) in its first rank, or the store in
// rank 0; with it, where TROUPE_RELAY says.
//
// Threads: any; pure. Errors: kInvalidArgument, naming the variables, what they say and what to do.
// Limits: at most kWorldMost ranks.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "runtime/base/ids.h"
#include "runtime/base/status.h"

namespace troupe::comm {

inline constexpr int kWorldMost = 1 << 20;

struct Place {
  Rank rank;
  int world = 1;
  int local_rank = 0;   // among the ranks of this node
  int local_world = 1;
  std::string store_host;  // one name or address, or several separated by commas, tried in turn; empty when alone
  int store_port = 0;
  std::string store_guess;   // why store_host may be another than rank 0's; empty: somebody has said it
  std::string incarnation;   // how often the job was restarted, where all ranks are told the same; part of the secret
  int restarts = -1;         // how often its launcher has started it again; -1: none says so
  std::string secret;        // what the job's processes know and others do not; see STORE.md for how secret it is
  std::string relay;         // at which name of this host its ranks find the store's relay; empty: they go to the store
  bool hosts_relay = false;  // this process is the one that runs that
  bool hosts_store = false;  // this process, a rank 0 without launcher, is the one that runs the store
  std::string found_in;      // "troupe launch", "torchrun variables", "Slurm", "Open MPI" or "alone"; " inside Slurm", ...
};

// The value of a variable; none if it is not set.
using EnvironmentLookup = std::function<std::optional<std::string>(const char* name)>;
EnvironmentLookup process_environment();

// A variable that is set to nothing counts as not set.
StatusOr<Place> find_place(const EnvironmentLookup& environment);

struct HostPort {
  std::string host;
  int port = 0;
};
// "host:port", "1.2.3.4:port" or "[v6]:port"; several hosts may stand before the port, separated by commas.
StatusOr<HostPort> parse_host_port(const std::string& text);

// The first name of a Slurm node list: "n[03-05,9],x" is n03, "rack[1-2]n[3-4]" is rack1n3. Empty for one that is none.
std::string first_of_node_list(const std::string& list);

}  // namespace troupe::comm
