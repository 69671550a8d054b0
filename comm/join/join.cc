#include "comm/join/join.h"

#include <unistd.h>

#include <algorithm>
#include <array>

#include "absl/strings/str_cat.h"
#include "comm/join/secret.h"
#include "comm/join/socket.h"
#include "runtime/base/first_cause.h"
#include "runtime/base/log.h"

namespace troupe::comm {

namespace {

using namespace std::chrono_literals;

// After that, or half of its time, a rank goes to the store itself.
constexpr auto kRelayComesWithin = 10s;

StatusOr<std::unique_ptr<StoreClient>> meet(const Place& place, StoreClient::Options options, Deadline deadline) {
  if (!place.relay.empty()) {
    StoreClient::Options near = options;
    near.hosts = absl::StrCat("@", place.relay);
    near.somebody_by = after(std::min<Deadline::duration>(kRelayComesWithin, (deadline - std::chrono::steady_clock::now()) / 2));
    auto client = StoreClient::connect(near, deadline);
    if (!absl::IsNotFound(client.status())) return client;
    log_warning(absl::StrCat("rank ", place.rank.value, " finds no relay on this host (", client.status().message(),
                             ") and goes to the store itself"));
  }
  return StoreClient::connect(options, deadline);
}

std::string this_host() {
  std::array<char, 65> name{};
  return gethostname(name.data(), name.size() - 1) == 0 && name[0] != '\0' ? name.data() : "?";
}

}  // namespace

StatusOr<Joined> join(const Place& place, std::string my_address, Deadline deadline, const Cancel* cancel) {
  if (place.world == 1) return Joined(place, {std::move(my_address)});
  std::unique_ptr<StoreServer> server;
  std::unique_ptr<StoreRelay> relay;
  std::string hosts = place.store_host;
  if (place.hosts_store) {
    if (!place.store_guess.empty() && !any_is_here(hosts)) {
      return absl::FailedPreconditionError(
          absl::StrCat("the others look for the store of this process, rank 0, at ", hosts, ", and this host is none of these: ", place.store_guess));
    }
    TROUPE_ASSIGN_OR_RETURN(server, StoreServer::start({.loopback_only = hosts == "127.0.0.1" || hosts == "localhost",
                                                        .port = place.store_port,
                                                        .local_name = place.relay,
                                                        .secret = place.secret,
                                                        .world = place.world}));
    hosts = "127.0.0.1";
  } else if (place.hosts_relay) {
    auto started = StoreRelay::start({.name = place.relay,
                                      .host = this_host(),
                                      .run_by = place.rank,
                                      .store_hosts = hosts,
                                      .store_port = place.store_port,
                                      .secret = place.secret,
                                      .world = place.world},
                                     deadline);
    // Where two "hosts" of the job are one, there is one already: the store, or a relay.
    if (!started.ok() && !absl::IsAlreadyExists(started.status())) return started.status();
    if (started.ok()) relay = *std::move(started);
  }
  TROUPE_ASSIGN_OR_RETURN(auto store, meet(place,
                                           {.hosts = hosts,
                                            .port = place.store_port,
                                            .hosts_guess = place.store_guess,
                                            .secret = place.secret,
                                            .rank = place.rank,
                                            .world = place.world,
                                            .build = program_build(),
                                            .cancel = cancel},
                                           deadline));
  auto addresses = store->exchange(my_address, deadline);
  if (!addresses.ok()) {
    (void)store->abort(std::string(addresses.status().message()), place.rank);  // else it would only be gone
    return addresses.status();
  }
  return Joined(place, *std::move(addresses), std::move(server), std::move(relay), std::move(store));
}

Status Joined::abort(const Status& why) {
  if (!store_) return ok();
  const auto first = first_cause(why);
  return first ? store_->abort(first->text, first->rank) : store_->abort(std::string(why.message()), place_.rank);
}

Status Joined::check() { return store_ ? store_->check() : ok(); }

Status Joined::leave(Deadline deadline) {
  if (!store_) return ok();
  const Status status = store_->goodbye();
  store_.reset();
  const bool all_left = (!relay_ || relay_->wait_until_left(deadline)) && (!server_ || server_->wait_until_left(deadline));
  if (!all_left && status.ok()) {
    return absl::DeadlineExceededError(absl::StrCat("the other ranks have not left the ", server_ ? "store" : "relay", ", which ends now"));
  }
  return status;
}

}  // namespace troupe::comm
