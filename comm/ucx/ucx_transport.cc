#include "comm/ucx/ucx_transport.h"

#include <algorithm>
#include <future>
#include <memory>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "comm/ucx/inbox.h"
#include "comm/ucx/ucx_core.h"
#include "comm/ucx/wire.h"
#include "runtime/base/check.h"

namespace troupe::comm {

struct UcxTransport::State {
  UcxOptions options;
  std::string address;
  std::shared_ptr<Inbox> inbox = std::make_shared<Inbox>();
  std::unique_ptr<UcxCore> core;
  std::thread thread;
  bool peers_set = false, started = false, stopped = false;

  void run() {
    thread = std::thread([this] { core->run(); });
  }
};

StatusOr<std::unique_ptr<UcxTransport>> UcxTransport::open(const UcxOptions& options) {
  TROUPE_CHECK(options.world > 0 && options.rank.value >= 0 && options.rank.value < options.world)
      << "rank " << options.rank << " of " << options.world;
  auto state = std::make_unique<State>();
  state->options = options;
  TROUPE_ASSIGN_OR_RETURN(const std::shared_ptr<UcxContext> context, UcxContext::open(options.one_machine));
  UcxWorkers workers;
  for (auto& worker : workers) {
    TROUPE_ASSIGN_OR_RETURN(worker, UcxWorker::open(context));
  }
  state->core = std::make_unique<UcxCore>(options, std::move(workers), state->inbox);
  state->address = state->core->address();
  TROUPE_RETURN_IF_ERROR(state->core->listen());  // before anybody can know the address
  return std::unique_ptr<UcxTransport>(new UcxTransport(std::move(state)));
}

UcxTransport::UcxTransport(std::unique_ptr<State> state) : state_(std::move(state)) {}
UcxTransport::~UcxTransport() { stop(); }

const std::string& UcxTransport::address() const { return state_->address; }
Rank UcxTransport::rank() const { return state_->options.rank; }
int UcxTransport::world() const { return state_->options.world; }
bool UcxTransport::on_progress_thread() const { return state_->inbox->on_progress_thread(); }
Counters UcxTransport::counters() const { return state_->core->counters(); }

void UcxTransport::set_peers(std::vector<std::string> addresses) {
  TROUPE_CHECK(!state_->thread.joinable()) << "peers are set before start";
  TROUPE_CHECK(addresses.size() == static_cast<std::size_t>(world()))
      << addresses.size() << " addresses for " << world() << " ranks";
  state_->core->set_peers(std::move(addresses));
  state_->peers_set = true;
}

void UcxTransport::handle(Channel channel, Handler handler) {
  TROUPE_CHECK(!state_->started) << "handlers are set before start";
  TROUPE_CHECK(channel != Channel::kTransport) << "the transport's own channel";
  state_->core->handle(channel, std::move(handler));
}

void UcxTransport::on_peer_down(PeerDown handler) {
  TROUPE_CHECK(!state_->started) << "handlers are set before start";
  state_->core->on_peer_down(std::move(handler));
}

Status UcxTransport::start() {
  if (!state_->peers_set && world() > 1)
    return absl::FailedPreconditionError(
        "the transport has no peers' addresses: set_peers comes before start");
  TROUPE_CHECK(!state_->started && !state_->stopped) << "started twice";
  state_->started = true;
  if (state_->thread.joinable()) {
    state_->inbox->push([core = state_->core.get()] { core->open_channels(); });
  } else {
    state_->core->open_channels();
    state_->run();
  }
  return ok();
}

void UcxTransport::be_reachable() {
  TROUPE_CHECK(state_->peers_set && !state_->thread.joinable() && !state_->stopped) << "reachable between set_peers and start";
  state_->inbox->push([core = state_->core.get()] { core->watch_next(); });
  state_->run();
}

Status UcxTransport::check_next() {
  TROUPE_CHECK(state_->thread.joinable() && !state_->started && !state_->stopped) << "between be_reachable and start";
  auto told = std::make_shared<std::promise<Status>>();
  auto status = told->get_future();
  state_->inbox->push([core = state_->core.get(), told] { told->set_value(core->next_status()); });
  return status.get();
}

void UcxTransport::send(Frame frame) {
  TROUPE_CHECK(frame.to.value >= 0 && frame.to.value < world())
      << "a frame to rank " << frame.to << " of " << world();
  TROUPE_CHECK(frame.channel != Channel::kTransport) << "the transport's own channel";
  TROUPE_CHECK(frame.header.size() <= kHeaderBytesMost)
      << "a header of " << frame.header.size() << " bytes, " << kHeaderBytesMost << " are allowed";
  auto open = std::make_unique<OpenSend>();
  open->to = frame.to;
  open->channel = frame.channel;
  open->lane = frame.lane;
  open->bytes.resize(kWireBytes + frame.header.size());
  std::copy(frame.header.begin(), frame.header.end(), open->bytes.begin() + kWireBytes);
  open->bulk = frame.bulk;
  open->sent = std::move(frame.sent);
  if (on_progress_thread()) return state_->core->submit(std::move(open));
  if (open->bulk.empty() && state_->inbox->borrow()) {
    const UcxCore::Errand errand = state_->core->run_errand(open);
    state_->inbox->give_back(errand == UcxCore::Errand::kGoesOn);
    if (errand != UcxCore::Errand::kNotTaken) return;
  }
  state_->inbox->push(std::move(open));
}

void UcxTransport::post(absl::AnyInvocable<void()> function) { state_->inbox->push(std::move(function)); }

void UcxTransport::stop(const Status& why) {
  TROUPE_CHECK(!on_progress_thread()) << "the progress thread cannot wait for itself";
  if (std::exchange(state_->stopped, true)) return;
  state_->core->leave_because(why);
  if (state_->thread.joinable()) {
    state_->inbox->stop();
    state_->thread.join();
  } else {
    state_->core->shut_down();
  }
}

}  // namespace troupe::comm
