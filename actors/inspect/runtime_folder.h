// Where the processes of a user's running jobs are found: a folder with a card (JSON), a socket and the job's token for each.
//
// $TROUPE_RUNTIME_DIR, else $XDG_RUNTIME_DIR/troupe, else /tmp/troupe-UID; only its owner may enter. A card is locked (flock) for as long as
// its process lives: so a dead one is known also when its pid has been given to another, and a stopped one, or one in a container with pids
// of its own, is not taken for dead. Who writes or removes a card holds the folder's lock (flock) meanwhile, so that nobody takes the files of
// a new life of a rank for those of the one before (RuntimeFolder.WhoeverLooksLeavesANewLifesFilesAlone).
// Threads: any. Errors: kFailedPrecondition: somebody else owns the folder or may enter it; kInvalidArgument: its name is too long for a socket's.
// read_token: kNotFound, kFailedPrecondition, kInvalidArgument; what is in the file is in no message.
#pragma once

#include <string>
#include <vector>

#include "runtime/base/status.h"

namespace troupe::actors {

struct JobCard {
  std::string job;
  int rank = 0, world = 1, pid = 0;
  std::string host, program, output;
  double started_unix_s = 0;
  std::string socket{};  // a path; of a card that was found
};

std::string this_host();

// Made if it is not there.
StatusOr<std::string> open_runtime_folder();

// This process's card, there as long as this lives.
class PostedCard {
 public:
  // With `token`, if it is not empty, in a file that its owner alone may read.
  static StatusOr<PostedCard> post(const std::string& folder, const JobCard& card, const std::string& token = {});
  PostedCard(PostedCard&& other) noexcept;
  PostedCard& operator=(PostedCard&&) = delete;
  ~PostedCard();
  const std::string& socket() const { return socket_; }

 private:
  PostedCard(std::string path, std::string socket, std::string token, int lock)
      : path_(std::move(path)), socket_(std::move(socket)), token_(std::move(token)), lock_(lock) {}
  std::string path_, socket_, token_;
  int lock_;
};

// The token in a file that nobody but its owner may read; of a card that was found, in token_file().
std::string token_file(const JobCard& card);
StatusOr<std::string> read_token(const std::string& path);

// Of living processes, by start of the job, job and rank. What dead ones have left is removed.
std::vector<JobCard> running_cards(const std::string& folder);
// The same for whoever has seen processes die and asks nothing; where there is no folder there is nothing to do.
void remove_dead_cards();

}  // namespace troupe::actors
