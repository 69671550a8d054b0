#include "actors/control/job_graph.h"

#include "actors/control/end_meeting.h"
#include "actors/inspect/stall_watch.h"
#include "runtime/base/check.h"
#include "runtime/device/host_stream.h"
#include "runtime/trace/state_file.h"

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
  engine_->add_group(kEverybody, everybody, {}, "everybody");
  far_ = std::make_unique<FarEdges>(*system_, *transport_, *stream_);
  system_->probes().add(stream_->shared_probe(), "edges");
  end_ = system_->add<End>("job-end").self();
  transport_->handle(comm::Channel::kActors, [this](const comm::Arrival&) {
    system_->end_pauses();
    end_.send(End::Finished{});
  });
  transport_->on_peer_down([this](Rank rank, const Status& cause) {
    far_->peer_down(rank, cause);
    engine_->peer_down(rank, cause);
    if (inspector_) inspector_->peer_down(rank, cause);
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

void JobGraph::be_inspectable(const std::string& id, const std::string& key, std::chrono::nanoseconds stall_after) {
  stall_after_ = stall_after;
  const Rank rank = transport_ ? transport_->rank() : Rank(0);
  inspector_ = std::make_unique<Inspector>(Inspector::Setup{.job = id, .rank = rank.value, .world = transport_ ? transport_->world() : 1,
                                                            .ranks = {{.rank = rank, .probes = &system_->probes(), .engine = engine_.get(), .control = [this](actor::Control what, const std::string& actor) { return control(what, actor); }}},
                                                            .transport = transport_, .key = key});
}

StatusOr<actor::Controlled> JobGraph::control(actor::Control what, const std::string& actor) {
  {
    const std::lock_guard lock(starting_);
    if (!started_) return absl::FailedPreconditionError("the actors have not started yet");
  }
  return system_->control(what, actor);
}

Status JobGraph::run() {
  {
    const std::lock_guard lock(starting_);
    system_->start();
    started_ = true;
  }
  const trace::StateFile state([this] { return trace::state_text(system_->probes().snapshot()); });
  StallWatch stalls;
  const auto watch = [&] {
    if (inspector_) {
      stalls.start({.inspector = *inspector_, .probes = {&system_->probes()}, .rank = transport_ ? transport_->rank().value : 0,
                    .least_s = std::chrono::duration<double>(stall_after_).count()});
    }
  };
  if (!transport_) {
    watch();
    return system_->wait();
  }
  Status status = transport_->start();
  if (!status.ok()) end_.send(End::Lost{status});
  watch();
  status = system_->wait();
  stalls.end();
  if (status.ok()) {
    tell_the_others();
    status = meet_at_the_end(*engine_, kEverybody, end_within_);
  }
  transport_->stop(status);
  return status;
}

void JobGraph::lost(Rank rank, const Status& cause) {
  if (inspector_) inspector_->lost(rank, cause);
  system_->end_pauses();  // else who hears of it might not
  end_.send(End::Lost{cause});
}

void JobGraph::tell_the_others() {
  for (int rank = 0; rank < transport_->world(); ++rank) {
    if (Rank(rank) != transport_->rank()) transport_->send({.to = Rank(rank), .channel = comm::Channel::kActors});
  }
}

}  // namespace troupe::actors
