#include "actors/control/job_graph.h"

#include <future>

#include "absl/strings/str_join.h"
#include "runtime/base/check.h"
#include "runtime/device/host_stream.h"

namespace troupe::actors {
namespace {

constexpr comm::GroupId kEverybody{0};

}  // namespace

// Hears of the others' end in this process.
class JobGraph::End final : public actor::Actor {
 public:
  struct Finished {};
  struct Lost {
    Status cause;
  };
  End() {
    on(&End::finished);
    on(&End::lost);
  }

 private:
  void finished(Finished) { finish_job(); }
  void lost(Lost message) { fail(message.cause); }
};

JobGraph::JobGraph(comm::Transport* transport, actor::System::Options options, std::chrono::nanoseconds end_within)
    : transport_(transport), end_within_(end_within), system_(std::make_unique<actor::System>(options)) {
  if (!transport_) return;
  stream_ = std::make_unique<device::HostStream>("edges", 1);
  engine_ = std::make_unique<comm::CollectiveEngine>(*transport_);
  std::vector<Rank> everybody;
  for (int rank = 0; rank < transport_->world(); ++rank) everybody.push_back(Rank(rank));
  engine_->add_group(kEverybody, everybody);
  far_ = std::make_unique<FarEdges>(*system_, *transport_, *stream_);
  end_ = system_->add<End>("job-end").self();
  transport_->handle(comm::Channel::kActors, [this](const comm::Arrival&) { end_.send(End::Finished{}); });
  transport_->on_peer_down([this](Rank rank, const Status& cause) {
    far_->peer_down(rank, cause);
    engine_->peer_down(rank, cause);
    lost(rank, cause);
  });
}

JobGraph::~JobGraph() {
  if (transport_) transport_->stop();
}

FarEdges& JobGraph::far() {
  TROUPE_CHECK(far_) << "a job of one process has no edges to others";
  return *far_;
}

Status JobGraph::run() {
  system_->start();
  if (!transport_) return system_->wait();
  Status status = transport_->start();
  if (!status.ok()) end_.send(End::Lost{status});
  status = system_->wait();
  if (status.ok()) {
    tell_the_others();
    status = meet_at_the_end();
  }
  transport_->stop(status);
  return status;
}

void JobGraph::lost(Rank, const Status& cause) { end_.send(End::Lost{cause}); }

void JobGraph::tell_the_others() {
  for (int rank = 0; rank < transport_->world(); ++rank) {
    if (Rank(rank) != transport_->rank()) transport_->send({.to = Rank(rank), .channel = comm::Channel::kActors});
  }
}

// Twice: who has left the second meeting stops its transport, which would look like a death to one that is still in the first; but all have
// left the first by then.
Status JobGraph::meet_at_the_end() {
  TROUPE_RETURN_IF_ERROR(meet(comm::OperationId(1)));
  meet(comm::OperationId(2)).IgnoreError();
  return ok();
}

Status JobGraph::meet(comm::OperationId meeting) {
  auto met = std::make_shared<std::promise<Status>>();
  auto result = met->get_future();
  engine_->start(kEverybody, meeting, {.what = "end of the job"}, [met](Status status) { met->set_value(std::move(status)); });
  if (result.wait_for(end_within_) == std::future_status::ready) return result.get();
  auto told = std::make_shared<std::promise<std::string>>();
  auto missing = told->get_future();
  engine_->report([told](std::vector<comm::CollectiveEngine::OpenOperation> open) {
    std::string ranks;
    for (const auto& operation : open) {
      ranks = absl::StrJoin(operation.missing, ", ", [](std::string* out, Rank rank) { absl::StrAppend(out, "rank ", rank.value); });
    }
    told->set_value(ranks);
  });
  return absl::DeadlineExceededError(absl::StrCat("the job has ended here, but not at ", missing.get(), " within ",
                                                  std::chrono::duration<double>(end_within_).count(), " s"));
}

}  // namespace troupe::actors
