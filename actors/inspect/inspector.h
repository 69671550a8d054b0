// What a process shows of its job, by HTTP on a socket of its own in the runtime folder; README.md has the paths.
//
// Whoever is asked asks all ranks (comm/inspect), so one address shows the whole job, and a rank that is stuck or stopped is named by the
// others. Nothing is gathered while nobody looks.
// Threads: one makes and destroys; reports are asked for on threads of this. Owns: those, its card and its socket.
// Errors: none but listen's: a door that cannot be opened is a warning in the log, and the rank still answers the others.
// Limits: one question goes round at a time; ranks that take longer than the patience (1 s, 10 s at most) are given as not answering.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "actors/inspect/authority.h"
#include "actors/inspect/http.h"
#include "actors/inspect/question.h"
#include "actors/inspect/rank_report.h"
#include "actors/inspect/runtime_folder.h"
#include "actors/inspect/silences.h"
#include "actors/inspect/views.h"
#include "comm/inspect/inspect_tree.h"
#include "runtime/base/clock.h"

namespace troupe::actors {

class Inspector {
 public:
  struct Setup {
    std::string job;  // the same on all ranks
    int rank = 0, world = 1;
    std::string program{}, output{};  // what is shown of them; no program: this process's command line
    std::vector<RankSources> ranks{};  // in this process: one, or all that the job has
    comm::Transport* transport = nullptr;  // null where all ranks are here; outlives this
    std::string key{};  // of the job (comm::JobWorld::inspection_key), for Authority; where all ranks are here it may be left to this
  };
  // Before the transport starts; may be destroyed before it stops.
  explicit Inspector(Setup setup);

  // Serves at HOST:PORT as well. A loopback address may be read without a token, by whoever calls it that; another needs it for everything.
  // kInvalidArgument, kUnavailable: the address is none, or cannot be had; kFailedPrecondition: it needs a token, and there is none.
  Status listen(const std::string& address);
  int port() const { return far_server_ ? far_server_->port() : 0; }

  // `peer` is not waited for any more: what is asked of it ends with the cause at once. On the transport's progress thread.
  void peer_down(Rank peer, const Status& cause);
  // Somebody else than the transport has heard that it is gone: so it is said why it does not answer. By any thread; `peer` may be no rank.
  void lost(Rank peer, const Status& cause);

  // What each rank says of itself, in their order, without lists of messages; of those that do not answer within `patience` why. By any thread.
  std::vector<trace::RankReport> reports(std::chrono::nanoseconds patience);
  // Of an actor, the oldest first, `at_ns` being their ages; empty where it or its rank is not found. By any thread.
  std::vector<trace::EventRow> last_events(int rank, const std::string& actor, std::chrono::nanoseconds patience);

  // Empty if the door could not be opened.
  std::string socket() const { return posted_ ? posted_->socket() : ""; }

 private:
  enum class Door { kSocket, kLoopback, kFar };
  Status open_door();
  HttpServer::Handler behind(Door door);
  // Whether who comes through this door may ask that.
  Status admit(Door door, const HttpRequest& request);
  StatusOr<HttpAnswer> answer(const HttpRequest& request);
  // To what came through the tree.
  StatusOr<std::string> answer_here(const Question& question);
  StatusOr<int> rank_of(const std::string& actor, std::chrono::nanoseconds patience);
  // What `only` answer; all if it is empty.
  std::vector<RankReply> ask(Question question, const std::vector<int>& only, std::chrono::nanoseconds patience);

  Setup setup_;
  Authority authority_;
  JobCard card_;
  const SteadyClock clock_;
  Silences silences_;
  std::mutex asking_;
  std::unique_ptr<comm::InspectTree> tree_;
  std::optional<PostedCard> posted_;
  std::unique_ptr<HttpServer> server_, far_server_;  // end first: who is being answered asks the tree
};

}  // namespace troupe::actors
