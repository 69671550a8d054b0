// What the launcher knows of each rank of its job, and what it shows of it: host, output, log, how it ended.
//
// A rank's stdout and stderr go line by line to ours and into its log, rank-N.log. Logs of an earlier launch are kept: all get one number
// that is new, rank-N.log.1, so that a launch's logs have the same.
//
// Threads: one, the launcher's. Owns: the launcher's own output, the ranks' logs. Errors: open_logs: kInvalidArgument, naming the file.
#pragma once

#include <fstream>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tools/troupe/launch_crew.h"
#include "tools/troupe/launch_hosts.h"
#include "tools/troupe/launch_output.h"

namespace troupe::tool {

class LaunchedRanks {
 public:
  explicit LaunchedRanks(const std::vector<HostSlots>& hosts);
  Status open_logs(const std::string& folder);

  int count() const { return static_cast<int>(ranks_.size()); }
  bool has(Rank rank) const { return rank.value >= 0 && rank.value < count(); }
  const std::string& host(Rank rank) const { return at(rank).host; }
  const std::optional<Ending>& ending(Rank rank) const { return at(rank).ending; }
  bool failed(Rank rank) const { return at(rank).ending.value_or(Ending{}).failed(); }
  std::vector<Rank> running() const;

  void take_output(Rank rank, Stream stream, std::string_view bytes);
  void end(Rank rank, const Ending& ending);  // after its last output

  void say(const std::string& text) { err_.line("troupe: ", text); }
  void host_line(const std::string& host, std::string_view line);
  void say_ending(Rank rank);
  void say_last_words(Rank rank);  // of what it wrote, and of its actors
  static std::string text_of(const std::vector<Rank>& ranks);  // "rank 1", "ranks 1, 2"

  // The reader's side of it: nothing is taken from ranks while there is no room.
  Output& out() { return out_; }
  Output& err() { return err_; }
  void flush();  // at the end; a reader that takes nothing is not waited for
  bool has_room() const { return out_.has_room() && err_.has_room(); }

 private:
  // One rank while and after it runs.
  struct Launched {
    std::string host;
    LineCutter out, err;
    Tail err_tail;
    std::ofstream log;
    std::optional<Ending> ending;
  };
  Launched& at(Rank rank) { return ranks_[static_cast<std::size_t>(rank.value)]; }
  const Launched& at(Rank rank) const { return ranks_[static_cast<std::size_t>(rank.value)]; }
  void line(Rank rank, Stream stream, std::string_view text);
  void flush_log(Rank rank);
  std::string prefix(Rank rank) const;

  Output out_, err_;
  std::string log_folder_;
  std::vector<Launched> ranks_;
};

}  // namespace troupe::tool
