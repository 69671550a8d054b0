#include "tests/bench/program_part.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "tests/bench/forked.h"
#include "tests/bench/messages.h"
#include "tests/bench/parallel_rank.h"
#include "tests/bench/stuck_job.h"

namespace troupe::bench {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(PacedOptions, model, overrides, batch, seq_len, threads, stages, dtype, save_every, micro_batches, replicas, zero, balance,
                                   folder, inspect_as)

namespace {

using nlohmann::json;

void serve_messages(int socket) {
  for (std::string order = next_packet(socket); !order.empty(); order = next_packet(socket)) {
    send_packet(socket, absl::StrCat(messages_per_s(order == "one" ? 1 : kManyBalls)));
  }
}

}  // namespace

std::string to_text(const PacedOptions& job) { return json(job).dump(); }

void become_part(const std::string& program, const std::string& what, int socket, int rank, const std::string& options) {
  fcntl(socket, F_SETFD, 0);
  execl(program.c_str(), program.c_str(), "bench", "part", what.c_str(), std::to_string(socket).c_str(), std::to_string(rank).c_str(), options.c_str(), nullptr);
  std::fprintf(stderr, "troupe: bench: cannot run %s: %s\n", program.c_str(), std::strerror(errno));
  _exit(127);
}

Status run_part(const PartArguments& part) {
  const json options = json::parse(part.options, nullptr, false);
  if (!options.is_object()) return absl::InvalidArgumentError("bench part: the options are no JSON object");
  if (part.what == "messages") {
    serve_messages(part.socket);
  } else if (part.what == "stuck") {
    serve_stuck_job(part.socket, options.value("actors", 1), options.value("job", ""));
  } else if (part.what == "train") {
    run_parallel_rank(part.socket, part.rank, options.get<PacedOptions>(), {});
  } else {
    return absl::InvalidArgumentError(absl::StrCat("bench part: ", part.what, " is none of messages, stuck, train"));
  }
  return ok();
}

}  // namespace troupe::bench
