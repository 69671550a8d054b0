// Others that move bytes between two processes of this machine, each a program of its own: ucx_perftest and Open MPI.
//
// Threads: one. Owns: the processes and a temporary folder. Errors: kNotFound when a program is not installed (the text names it),
// kUnavailable with what it said when it fails, or says nothing for a minute.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "comm/collective/collective.h"
#include "runtime/base/status.h"

namespace troupe::bench {

// A child process whose standard output is read by lines.
class Program {
 public:
  struct Start {
    std::vector<std::string> words;        // the first is looked for in PATH
    std::string transports{};              // UCX_TLS, where not empty
    bool errors_too = false;               // what it says on stderr is read as well, not shown
  };
  static StatusOr<std::unique_ptr<Program>> start(const Start& how);
  ~Program();  // closes its input; ends it if it does not end itself
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  Status write_line(const std::string& line);
  // kOutOfRange at the end of its output.
  StatusOr<std::string> read_line();
  bool ended(int grace_ms);  // waits so long for it
  bool succeeded() const { return succeeded_; }  // once ended

 private:
  Program() = default;

  std::string name_, unread_;
  pid_t pid_ = -1;
  int to_ = -1, from_ = -1;
  bool succeeded_ = false;
};

// A server and a client for each measurement, both over `transports` (UCX_TLS), both spinning.
class UcxPerftest {
 public:
  static StatusOr<UcxPerftest> find();
  StatusOr<double> ping_s(const std::string& transports, std::int64_t count);  // 8 B, one way: half of there and back, median
  // One of `count` active messages of `bytes`, `open` under way at a time.
  StatusOr<double> bulk_s(const std::string& transports, std::int64_t bytes, std::int64_t count, int open);

 private:
  // The column of its table of figures, counted from 0.
  StatusOr<double> figure(const std::string& transports, const std::vector<std::string>& test, std::size_t column);
};

// Ranks under mpirun, which sleep between measurements (peers/mpi_collectives.c).
class MpiCollectives {
 public:
  static StatusOr<std::unique_ptr<MpiCollectives>> start(const std::string& source, int ranks);
  ~MpiCollectives();
  // One of `count` in a row.
  StatusOr<double> collective_s(comm::CollectiveKind kind, std::int64_t bytes, std::int64_t count);
  const std::string& description() const { return description_; }

 private:
  MpiCollectives() = default;
  Status set_up(const std::string& source, int ranks);

  std::string folder_, description_;
  std::unique_ptr<Program> program_;
};

}  // namespace troupe::bench
