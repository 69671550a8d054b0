#include "actors/inspect/runtime_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <thread>
#include <tuple>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace troupe::actors {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kSocketPathBytesMost = sizeof(sockaddr_un::sun_path) - 1;
constexpr const char* kCard = ".json";
constexpr const char* kSocket = ".sock";
constexpr const char* kToken = ".token";
constexpr std::size_t kTokenDigits = 64;

std::string folder_from_environment() {
  const auto variable = [](const char* name) {
    const char* value = std::getenv(name);
    return std::string(value == nullptr ? "" : value);
  };
  if (auto own = variable("TROUPE_RUNTIME_DIR"); !own.empty()) return own;
  if (const auto session = variable("XDG_RUNTIME_DIR"); !session.empty()) return session + "/troupe";
  return absl::StrCat("/tmp/troupe-", getuid());
}

std::string card_text(const JobCard& card) {
  return nlohmann::json{{"job", card.job}, {"rank", card.rank}, {"world", card.world}, {"pid", card.pid}, {"host", card.host},
                        {"program", card.program}, {"output", card.output}, {"started_unix_s", card.started_unix_s}}
      .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

bool read_card(const fs::path& path, JobCard& card) {
  std::ifstream file(path);
  const auto json = nlohmann::json::parse(file, nullptr, false);
  if (!json.is_object()) return false;
  const auto word = [&](const char* key) { return json.contains(key) && json[key].is_string() ? json[key].get<std::string>() : ""; };
  const auto number = [&](const char* key) { return json.contains(key) && json[key].is_number() ? json[key].get<double>() : 0.0; };
  card = {.job = word("job"), .rank = static_cast<int>(number("rank")), .world = static_cast<int>(number("world")),
          .pid = static_cast<int>(number("pid")), .host = word("host"), .program = word("program"), .output = word("output"),
          .started_unix_s = number("started_unix_s"), .socket = fs::path(path).replace_extension(kSocket)};
  return !card.job.empty();
}

// The folder's, while this lives. Who holds it needs a moment; one that was stopped in that moment keeps nobody from going on.
class FolderLock {
 public:
  explicit FolderLock(const std::string& folder) : folder_(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
    const auto end = std::chrono::steady_clock::now() + kPatience;
    while (folder_ >= 0 && flock(folder_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK && std::chrono::steady_clock::now() < end)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  ~FolderLock() {
    if (folder_ >= 0) close(folder_);
  }
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  static constexpr std::chrono::seconds kPatience{1};
  const int folder_;
};

// Whether the file is still the one that is called so.
bool is_called(int file, const std::string& path) {
  struct stat held{}, found{};
  return fstat(file, &held) == 0 && lstat(path.c_str(), &found) == 0 && held.st_dev == found.st_dev && held.st_ino == found.st_ino;
}

// Nobody holds its lock.
bool is_left_over(const fs::path& path) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  if (file < 0) return false;
  const bool free = flock(file, LOCK_SH | LOCK_NB) == 0;
  close(file);
  return free;
}

}  // namespace

std::string this_host() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "?";
}

StatusOr<std::string> open_runtime_folder() {
  const std::string folder = folder_from_environment();
  if (mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST)
    return absl::FailedPreconditionError(absl::StrCat("cannot make ", folder, ": ", std::strerror(errno), "; set TROUPE_RUNTIME_DIR to a folder of your own"));
  struct stat found{};
  if (lstat(folder.c_str(), &found) != 0) return absl::FailedPreconditionError(absl::StrCat(folder, ": ", std::strerror(errno)));
  if (!S_ISDIR(found.st_mode) || found.st_uid != getuid())
    return absl::FailedPreconditionError(absl::StrCat(folder, S_ISDIR(found.st_mode) ? absl::StrCat(" belongs to user ", found.st_uid) : " is no folder",
                                                      "; set TROUPE_RUNTIME_DIR to a folder of your own"));
  if ((found.st_mode & 077) != 0)
    return absl::FailedPreconditionError(absl::StrFormat("%s is open to others (mode %04o); say chmod 700 %s", folder, found.st_mode & 0777, folder));
  return folder;
}

std::string token_file(const JobCard& card) { return fs::path(card.socket).replace_extension(kToken); }

StatusOr<std::string> read_token(const std::string& path) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) {
    const std::string why = absl::StrCat("cannot read the token in ", path, ": ", std::strerror(errno));
    return errno == ENOENT ? absl::NotFoundError(why) : absl::FailedPreconditionError(why);
  }
  struct stat found{};
  std::array<char, kTokenDigits + 2> text{};
  const bool is_file = fstat(file, &found) == 0 && S_ISREG(found.st_mode);
  const ssize_t bytes = is_file ? read(file, text.data(), text.size()) : 0;
  close(file);
  if (is_file && (found.st_mode & 077) != 0)
    return absl::FailedPreconditionError(absl::StrFormat("%s is open to others (mode %04o); say chmod 600 %s, and take another token if they may have read it", path,
                                                         found.st_mode & 0777, path));
  std::string token(text.data(), static_cast<std::size_t>(std::max<ssize_t>(bytes, 0)));
  absl::StripTrailingAsciiWhitespace(&token);
  if (token.size() != kTokenDigits || !std::ranges::all_of(token, [](unsigned char c) { return absl::ascii_isxdigit(c); }))
    return absl::InvalidArgumentError(absl::StrCat(path, " holds no token: that is ", kTokenDigits, " hexadecimal digits, in a file alone"));
  return token;
}

namespace {

// Not to be read by anybody else at any time.
bool write_own_file(const std::string& path, const std::string& text) {
  unlink(path.c_str());  // of an earlier life of this rank
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (file < 0) return false;
  const bool written = write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  return close(file) == 0 && written;
}

}  // namespace

StatusOr<PostedCard> PostedCard::post(const std::string& folder, const JobCard& card, const std::string& token) {
  const std::string stem = absl::StrCat(folder, "/", card.job, ".", card.rank), path = stem + kCard, socket = stem + kSocket, token_path = stem + kToken;
  if (socket.size() > kSocketPathBytesMost)
    return absl::InvalidArgumentError(absl::StrCat(socket, " has ", socket.size(), " bytes, and the name of a unix socket at most ", kSocketPathBytesMost,
                                                   "; set TROUPE_RUNTIME_DIR to a folder with a shorter name"));
  const FolderLock lock(folder);
  // Locked before it has its name: who sees it sees that we live.
  const std::string fresh = absl::StrCat(stem, ".new", getpid());
  const int file = open(fresh.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  const std::string text = card_text(card);
  const bool written = file >= 0 && flock(file, LOCK_EX | LOCK_NB) == 0 && write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size()) &&
                       (token.empty() || write_own_file(token_path, token + "\n")) && rename(fresh.c_str(), path.c_str()) == 0;
  if (written) {
    unlink(socket.c_str());  // of an earlier life of this rank
    return PostedCard(path, socket, token_path, file);
  }
  const std::string why = std::strerror(errno);
  unlink(token_path.c_str());
  unlink(fresh.c_str());
  if (file >= 0) close(file);
  return absl::FailedPreconditionError(absl::StrCat("cannot write ", path, ": ", why));
}

PostedCard::PostedCard(PostedCard&& other) noexcept
    : path_(std::move(other.path_)), socket_(std::move(other.socket_)), token_(std::move(other.token_)), lock_(std::exchange(other.lock_, -1)) {}

PostedCard::~PostedCard() {
  if (lock_ < 0) return;
  const FolderLock lock(fs::path(path_).parent_path());
  if (is_called(lock_, path_)) {  // else they are another life's
    unlink(socket_.c_str());
    unlink(token_.c_str());
    unlink(path_.c_str());
  }
  close(lock_);
}

std::vector<JobCard> running_cards(const std::string& folder) {
  std::vector<JobCard> cards;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (entry.path().extension() != kCard) continue;
    if (is_left_over(entry.path())) {
      const FolderLock lock(folder);
      if (is_left_over(entry.path())) {  // else it has a new life meanwhile, or somebody has removed it
        for (const char* beside : {kSocket, kToken}) fs::remove(fs::path(entry.path()).replace_extension(beside), error);
        fs::remove(entry.path(), error);
      }
    }
    if (JobCard card; read_card(entry.path(), card)) cards.push_back(std::move(card));
  }
  std::map<std::string, double> started;  // a job, with the first of its processes
  for (const auto& card : cards) {
    const auto at = started.emplace(card.job, card.started_unix_s).first;
    at->second = std::min(at->second, card.started_unix_s);
  }
  std::ranges::sort(cards, {}, [&](const JobCard& card) { return std::tuple(started[card.job], card.job, card.rank); });
  return cards;
}

void remove_dead_cards() { running_cards(folder_from_environment()); }

}  // namespace troupe::actors
