#include "comm/join/join.h"

#include "runtime/base/first_cause.h"

namespace troupe::comm {

StatusOr<Joined> join(const Place& place, std::string my_address, Deadline deadline, std::string build) {
  if (place.world == 1) return Joined(place, {std::move(my_address)}, nullptr, nullptr);
  std::unique_ptr<StoreServer> server;
  std::string hosts = place.store_host;
  if (place.hosts_store) {
    TROUPE_ASSIGN_OR_RETURN(server, StoreServer::start({.loopback_only = hosts == "127.0.0.1" || hosts == "localhost",
                                                        .port = place.store_port,
                                                        .secret = place.secret,
                                                        .world = place.world}));
    hosts = "127.0.0.1";
  }
  TROUPE_ASSIGN_OR_RETURN(auto store, StoreClient::connect({.hosts = hosts,
                                                            .port = place.store_port,
                                                            .secret = place.secret,
                                                            .rank = place.rank,
                                                            .world = place.world,
                                                            .build = std::move(build)},
                                                           deadline));
  TROUPE_ASSIGN_OR_RETURN(auto addresses, store->exchange(my_address, deadline));
  return Joined(place, std::move(addresses), std::move(server), std::move(store));
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
  if (server_ && !server_->wait_until_left(deadline) && status.ok()) {
    return absl::DeadlineExceededError("the other ranks have not left the store, which ends now");
  }
  return status;
}

}  // namespace troupe::comm
