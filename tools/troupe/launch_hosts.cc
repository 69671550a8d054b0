#include "tools/troupe/launch_hosts.h"

#include <arpa/inet.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <optional>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "comm/join/environment.h"
#include "tools/troupe/did_you_mean.h"

namespace troupe::tool {
namespace {

struct NamedHost {
  std::string host;
  std::optional<int> slots;
};

// With or without USER@ before it and %ZONE behind.
bool is_ipv6(const std::string& text) {
  std::string address = text.substr(0, text.find('%'));
  if (const auto at = address.find('@'); at != std::string::npos) address.erase(0, at + 1);
  in6_addr parsed{};
  return inet_pton(AF_INET6, address.c_str(), &parsed) == 1;
}

StatusOr<int> parse_count(const std::string& text, const std::string& where) {
  int count = 0;
  if (absl::SimpleAtoi(text, &count) && count >= 1 && count <= comm::kWorldMost) return count;
  return absl::InvalidArgumentError(
      absl::StrCat("'", where, "': '", text, "' is no number of ranks, which is from 1 to ", comm::kWorldMost));
}

StatusOr<NamedHost> parse_host(const std::string& text) {
  const auto no_host = [&](const std::string& why) { return absl::InvalidArgumentError(absl::StrCat("'", text, "' is no host", why)); };
  NamedHost parsed{text, {}};
  std::string count;
  const auto open = text.find('['), close = text.rfind(']'), colon = text.rfind(':');
  if (open != std::string::npos || close != std::string::npos) {
    const std::string behind = close == std::string::npos ? "" : text.substr(close + 1);
    if (open > close || close == std::string::npos || (!behind.empty() && behind[0] != ':'))
      return no_host(": an IPv6 address in brackets is [::1] or, with a number of ranks, [::1]:2");
    parsed.host = absl::StrCat(text.substr(0, open), text.substr(open + 1, close - open - 1));
    if (!is_ipv6(parsed.host)) return no_host(": between brackets stands an IPv6 address");
    if (!behind.empty()) count = behind.substr(1);
    if (behind == ":") return parse_count("", text).status();
  } else if (colon != std::string::npos && !is_ipv6(text)) {
    parsed.host = text.substr(0, colon);
    count = text.substr(colon + 1);
    if (parsed.host.find(':') != std::string::npos) return no_host(": HOST:RANKS has one colon, and an IPv6 address with ranks brackets, [::1]:2");
    if (count.empty()) return parse_count("", text).status();
  }
  if (!count.empty()) {
    TROUPE_ASSIGN_OR_RETURN(parsed.slots, parse_count(count, text));
  }
  if (parsed.host.empty()) return no_host(": allowed are HOST and HOST:RANKS");
  if (parsed.host.starts_with('-')) return no_host(": ssh would take it as an option");
  if (parsed.host.find_first_of("= \t") != std::string::npos) return no_host(": allowed are HOST and HOST:RANKS");
  return parsed;
}

// HOST[:N] [N | slots=N] [max_slots=N]
StatusOr<HostSlots> parse_line(const std::vector<std::string>& words, int nproc) {
  TROUPE_ASSIGN_OR_RETURN(const NamedHost host, parse_host(words[0]));
  std::optional<int> slots = host.slots, most;
  for (auto word = words.begin() + 1; word != words.end(); ++word) {
    const auto equals = word->find('=');
    const bool is_bare = equals == std::string::npos && word == words.begin() + 1;
    const std::string key = is_bare ? "slots" : word->substr(0, equals);
    const bool is_most = key == "max_slots" || key == "max-slots";
    if (key != "slots" && !is_most) {
      return absl::InvalidArgumentError(
          absl::StrCat("'", *word, "' is unknown; slots=N and max_slots=N may follow the host", did_you_mean(key, {"slots", "max_slots"})));
    }
    std::optional<int>& count = is_most ? most : slots;
    if (count)
      return absl::InvalidArgumentError(absl::StrCat("'", *word, "' is a second number of ", is_most ? "most " : "", "ranks for ", words[0]));
    TROUPE_ASSIGN_OR_RETURN(count, parse_count(is_bare ? *word : equals == std::string::npos ? "" : word->substr(equals + 1), *word));
  }
  if (slots && most && *slots > *most)
    return absl::InvalidArgumentError(absl::StrCat(words[0], " has ", *slots, " ranks, more than its max_slots=", *most));
  return HostSlots{host.host, slots ? *slots : std::min(nproc, most.value_or(nproc))};
}

StatusOr<std::vector<HostSlots>> merged(std::vector<HostSlots> hosts) {
  std::vector<HostSlots> each;
  int world = 0;
  for (auto& host : hosts) {
    if (host.slots > comm::kWorldMost - world) return absl::InvalidArgumentError(absl::StrCat("a job has at most ", comm::kWorldMost, " ranks"));
    world += host.slots;
    const auto same = std::ranges::find_if(each, [&, is_here = is_this_host(host.host)](const HostSlots& other) {
      return other.host == host.host || (is_here && is_this_host(other.host));
    });
    if (same == each.end()) each.push_back(std::move(host));
    else same->slots += host.slots;
  }
  return each;
}

}  // namespace

StatusOr<std::vector<HostSlots>> parse_hosts(const std::string& text, int nproc) {
  std::vector<HostSlots> hosts;
  for (const std::string& part : std::vector<std::string>(absl::StrSplit(text, ','))) {
    const auto host = parse_host(part);
    if (!host.ok()) return absl::InvalidArgumentError(absl::StrCat("--hosts '", text, "': ", host.status().message()));
    hosts.push_back({host->host, host->slots.value_or(nproc)});
  }
  return merged(std::move(hosts));
}

StatusOr<std::vector<HostSlots>> parse_host_file(const std::string& path, int nproc) {
  std::ifstream file(path);
  if (!file || std::filesystem::is_directory(path))
    return absl::NotFoundError(absl::StrCat("--hostfile ", path, ": there is no such file, or it cannot be read"));
  std::vector<HostSlots> hosts;
  std::vector<std::string> faults;
  int number = 0;
  for (std::string line; std::getline(file, line);) {
    ++number;
    line = absl::StrReplaceAll(line.substr(0, line.find('#')), {{" = ", "="}});
    const std::vector<std::string> words = absl::StrSplit(line, absl::ByAnyChar(" \t\r"), absl::SkipEmpty());
    if (words.empty()) continue;
    auto host = parse_line(words, nproc);
    if (host.ok()) hosts.push_back(*std::move(host));
    else faults.push_back(absl::StrCat(path, ":", number, ": ", host.status().message()));
  }
  if (faults.size() == 1) return absl::InvalidArgumentError(faults[0]);
  if (!faults.empty())
    return absl::InvalidArgumentError(absl::StrCat("--hostfile ", path, " has ", faults.size(), " bad lines:\n", absl::StrJoin(faults, "\n")));
  if (hosts.empty()) return absl::InvalidArgumentError(absl::StrCat("--hostfile ", path, " names no host: a line is HOST [slots=N]"));
  return merged(std::move(hosts));
}

bool is_this_host(const std::string& host) {
  std::array<char, 256> name{};
  gethostname(name.data(), name.size() - 1);
  return host == "localhost" || host == "127.0.0.1" || host == "::1" || host == name.data();
}

}  // namespace troupe::tool
