#include "tests/bench/comm_pair.h"

#include <sys/mman.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"

namespace troupe::bench {

StatusOr<std::unique_ptr<CommPair>> CommPair::open(const LinkOptions& options) {
  std::unique_ptr<CommPair> pair(new CommPair);
  TROUPE_RETURN_IF_ERROR(pair->set_up(options));
  return pair;
}

Status CommPair::set_up(const LinkOptions& options) {
  board_ = CopyBoard::map();
  if (board_ == nullptr) return absl::UnavailableError("no memory that two ranks share");
  TROUPE_ASSIGN_OR_RETURN(
      ranks_, ForkedRanks::fork(options.ranks, [&](int socket, int rank) { run_comm_rank(socket, rank, options, *board_); }));
  std::vector<std::string> addresses;
  for (int rank = 0; rank < ranks_.count(); ++rank) {
    TROUPE_ASSIGN_OR_RETURN(addresses.emplace_back(), ranks_.receive(rank));
  }
  for (int rank = 0; rank < ranks_.count(); ++rank) {
    for (const auto& address : addresses) TROUPE_RETURN_IF_ERROR(ranks_.send(rank, address));
  }
  for (int rank = 0; rank < ranks_.count(); ++rank) {
    TROUPE_RETURN_IF_ERROR(ranks_.receive(rank).status());
  }
  return ok();
}

CommPair::~CommPair() {
  ranks_ = {};
  if (board_ != nullptr) munmap(board_, sizeof *board_);
}

StatusOr<double> CommPair::measure(const Order& order) {
  const std::string_view packet(reinterpret_cast<const char*>(&order), sizeof order);
  for (int rank = 0; rank < ranks_.count(); ++rank) TROUPE_RETURN_IF_ERROR(ranks_.send(rank, packet));
  double slowest = -1;
  for (int rank = 0; rank < ranks_.count(); ++rank) {
    TROUPE_ASSIGN_OR_RETURN(const std::string answer, ranks_.receive(rank));
    double seconds = 0;
    if (answer.size() != sizeof seconds) return absl::UnavailableError(absl::StrCat("rank ", rank, " of the measured link gave no number"));
    std::copy(answer.begin(), answer.end(), reinterpret_cast<char*>(&seconds));
    slowest = std::max(slowest, seconds);
  }
  return slowest;
}

}  // namespace troupe::bench
