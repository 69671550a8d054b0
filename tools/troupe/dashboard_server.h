// The dashboard's page and what it asks for, by HTTP: its files, and under /v1/ the stream of frames (server-sent events), the series, and what
// the job answers about one actor.
//
// Threads: one makes and destroys. Owns: its HTTP server. Errors: kInvalidArgument: an address other than this machine's own without a token;
// kUnavailable: the port is taken.
// Limits: kStreamsMost pages at a time (actors/inspect/http.h).
// Invariants: without a token only who calls this server by a name of this machine is answered, so that a page from elsewhere whose name
// was turned to this address learns nothing (DashboardDoor.AnotherNameIsRefused); with one, /v1/ answers nobody without it
// (DashboardDoor.TheTokenOpensTheData).
#pragma once

#include <memory>
#include <string>

#include "actors/inspect/http.h"
#include "tools/troupe/dashboard_feed.h"

namespace troupe::tool {

inline constexpr int kDashboardPort = 8265;

class DashboardServer {
 public:
  // `place`: a host and a port, and the token that pages must show; empty: none.
  static StatusOr<std::unique_ptr<DashboardServer>> open(const actors::HttpPlace& place, const DashboardFeed& feed);
  std::string address() const;  // for a browser

 private:
  DashboardServer(const actors::HttpPlace& place, const DashboardFeed& feed) : place_(place), feed_(feed) {}
  StatusOr<actors::HttpAnswer> answer(const actors::HttpRequest& request) const;
  StatusOr<actors::HttpAnswer> data(const actors::HttpRequest& request) const;
  Status may_ask(const actors::HttpRequest& request) const;

  const actors::HttpPlace place_;
  const DashboardFeed& feed_;
  std::unique_ptr<actors::HttpServer> server_;
};

}  // namespace troupe::tool
