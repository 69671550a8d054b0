// What joins the ranks of a job that this process takes part in: UCX between processes, threads' queues within one. A program's main
// makes one; it knows by its environment whether troupe launch, torchrun, Slurm, Open MPI or nobody started it.
//
// Threads: one. Owns: the transports, the connection to the job's store. Errors: those of comm/join and of UCX; of what waits for the
// other ranks, why one of them has failed or gone, with that rank as first_cause().
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "comm/join/join.h"
#include "comm/local/local_transport.h"

namespace troupe::comm {

class UcxTransport;

class JobWorld {
 public:
  // Reads the environment only: who we are, before anything is opened.
  static StatusOr<std::unique_ptr<JobWorld>> of_this_process();
  ~JobWorld();

  const Place& place() const { return place_; }
  bool leads() const { return place_.rank.value == 0; }
  // What people call this job, eight hexadecimal digits: the same in all its processes, and no help to who wants to know its secret.
  const std::string& job_id() const { return job_id_; }

  // What all processes of this job know and nobody else, for who proves something to an inspector; once this has entered.
  const std::string& inspection_key() const { return inspection_key_; }

  struct Entry {
    int ranks = 1;  // that the program has: as many as there are processes, or all in this one
    double heartbeat_timeout_s = 5;
    double join_timeout_s = 120;     // until the last process of the job has come
    const Cancel* cancel = nullptr;  // ends the wait for the others, and tells them why; outlives this
  };
  // Meets the other processes.
  Status enter(const Entry& entry);
  // One for each rank in this process; empty where there is only one in all.
  const std::vector<Transport*>& transports() const { return transports_; }
  // Ranks that share a machine have a number in common; by rank, empty where all are in this process.
  const std::vector<int>& node_of() const { return node_of_; }
  // Before the transports start, by all ranks in the same order; both wait for the others, for as long as these live.
  // What rank 0 says.
  StatusOr<std::string> from_leader(const std::string& what, const std::string& mine);
  // Ok if it is so at all ranks; else, at all of them, an error that says where it is not, and why.
  Status all_ok(const std::string& what, const Status& here);
  // From another thread, once, if the store says that a rank failed or was lost: sooner than the transport may know, and also before that
  // rank was ever heard of.
  void watch(std::function<void(Rank, const Status& cause)> lost);
  // Before what it calls ends.
  void end_watch();
  // From another thread than the one that entered, after the request to cancel, which ends a call that waits: tells the others why this
  // process ends now. No call follows. Not ok: another rank had ended the job before, and why.
  Status give_up(const Status& why);
  // Tells the others how it ended here.
  Status leave(const Status& outcome);

 private:
  explicit JobWorld(Place place);
  StatusOr<std::string> hear(const std::string& key);
  Status meet(const std::string& what, const Status& here);

  const Place place_;
  const std::string job_id_;
  std::string inspection_key_;
  std::optional<Joined> joined_;
  std::unique_ptr<LocalHub> hub_;
  std::vector<std::unique_ptr<Transport>> owned_;
  UcxTransport* ucx_ = nullptr;  // one of them, where there are several processes
  std::vector<Transport*> transports_;
  std::vector<int> node_of_;
  std::thread watch_;
  int end_watch_ = -1;  // an eventfd
  std::mutex calls_;    // of the store: give_up() comes from another thread
};

}  // namespace troupe::comm
