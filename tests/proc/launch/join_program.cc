// A rank as the tests need it: joins, then does what its argument says.
//   join_program meet            exchanges addresses, prints them and leaves
//   join_program abort R TEXT    rank R ends the job with TEXT; the others wait and hear it
//   join_program vanish R        rank R exits with 0, but without leaving
//   join_program stuck R         rank R ends the job and does not end itself
//   join_program wait R          all but rank R join, and wait for it a second
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

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

}  // namespace

int main(int argc, char** argv) {
  const auto place = comm::find_place(comm::process_environment());
  if (!place.ok()) return failed(place.status());
  const std::string what = argc > 1 ? argv[1] : "";
  const Rank chosen{argc > 2 ? std::atoi(argv[2]) : 0};
  if (what == "wait" && place->rank == chosen) return pause();
  auto joined = comm::join(*place, absl::StrCat("address-", place->rank.value), comm::after(what == "wait" ? 1s : kPatience));
  if (!joined.ok()) return failed(joined.status());
  if (what == "meet") {
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
