// A rank as the tests need it: joins, then does what its argument says.
//   join_program meet            exchanges addresses, prints them and leaves
//   join_program abort R TEXT    rank R ends the job with TEXT; the others wait and hear it
//   join_program vanish R        rank R exits with 0, but without leaving
//   join_program stuck R         rank R ends the job and does not end itself
//   join_program wait R          all but rank R join, and wait for it a second
//   join_program stop R          rank R stops (SIGSTOP) before it joins; the others wait for it
//   join_program nap R           it goes on after a second
//   join_program hold FOLDER     joins; rank 0 writes the store's port to FOLDER/port; all leave when there is a FOLDER/counted
#include <poll.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "comm/join/join.h"

namespace {

using namespace std::chrono_literals;
using namespace troupe;

constexpr auto kPatience = 60s;

int failed(const Status& status) {
  std::fprintf(stderr, "failed: %s\n", std::string(status.message()).c_str());
  return 3;
}

void stop_oneself(bool for_a_second) {
  const pid_t pid = getpid();
  if (for_a_second && fork() == 0) {
    poll(nullptr, 0, 1000);
    kill(pid, SIGCONT);
    _exit(0);
  }
  raise(SIGSTOP);
}

int hold(comm::Joined& joined, const std::filesystem::path& folder) {
  const auto& place = joined.place();
  const Status all = joined.store()->barrier("joined", place.world, comm::after(kPatience));
  if (!all.ok()) return failed(all);
  if (place.rank.value == 0) {
    std::ofstream(folder / "port.new") << place.store_port << "\n";
    std::filesystem::rename(folder / "port.new", folder / "port");
  }
  while (!std::filesystem::exists(folder / "counted")) poll(nullptr, 0, 10);
  const Status left = joined.leave(comm::after(kPatience));
  return left.ok() ? 0 : failed(left);
}

}  // namespace

int main(int argc, char** argv) {
  const auto place = comm::find_place(comm::process_environment());
  if (!place.ok()) return failed(place.status());
  const std::string what = argc > 1 ? argv[1] : "";
  const Rank chosen{argc > 2 ? std::atoi(argv[2]) : 0};
  if (what == "wait" && place->rank == chosen) return pause();
  if ((what == "stop" || what == "nap") && place->rank == chosen) stop_oneself(what == "nap");
  auto joined = comm::join(*place, absl::StrCat("address-", place->rank.value), comm::after(what == "wait" ? 1s : kPatience));
  if (!joined.ok()) return failed(joined.status());
  if (what == "hold") return hold(*joined, argv[2]);
  if (what == "meet" || what == "nap") {
    std::printf("%s: rank %d of %d: %s\n", place->found_in.c_str(), place->rank.value, place->world,
                absl::StrJoin(joined->addresses(), " ").c_str());
    const Status left = joined->leave(comm::after(kPatience));
    return left.ok() ? 0 : failed(left);
  }
  if (place->rank == chosen) {
    if (what == "vanish") _exit(0);
    const Status aborted = joined->abort(absl::InternalError(argc > 3 ? argv[3] : "no reason"));
    if (what == "stuck") return pause();
    std::fprintf(stderr, "I said it\n");
    return aborted.ok() ? 5 : 6;
  }
  return failed(joined->store()->get("never", comm::after(kPatience)).status());
}
