#include "tools/troupe/launch_hosts.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "comm/join/environment.h"

namespace troupe::tool {
namespace {

StatusOr<HostSlots> parse_host(const std::string& text, int nproc) {
  HostSlots parsed{text, nproc};
  const auto colon = text.rfind(':');
  const bool has_number = colon != std::string::npos && (text.find(']') == std::string::npos || text.rfind(']') < colon);
  if (has_number) {
    parsed.host = text.substr(0, colon);
    if (!absl::SimpleAtoi(text.substr(colon + 1), &parsed.slots) || parsed.slots < 1 || parsed.slots > comm::kWorldMost) {
      return absl::InvalidArgumentError(
          absl::StrCat("host '", text, "': after the colon stands the number of its ranks, at least 1"));
    }
  }
  if (parsed.host.starts_with('[') && parsed.host.ends_with(']')) parsed.host = parsed.host.substr(1, parsed.host.size() - 2);
  if (parsed.host.empty() || parsed.host.starts_with('-'))
    return absl::InvalidArgumentError(absl::StrCat("'", text, "' is no host"));  // ssh would take -x as an option
  return parsed;
}

StatusOr<std::vector<HostSlots>> once_each(std::vector<HostSlots> hosts) {
  if (hosts.empty()) return absl::InvalidArgumentError("there is no host");
  for (auto host = hosts.begin(); host != hosts.end(); ++host) {
    if (std::any_of(hosts.begin(), host, [&](const HostSlots& other) { return other.host == host->host; })) {
      return absl::InvalidArgumentError(
          absl::StrCat("host '", host->host, "' is named twice: name it once, with the sum of its ranks"));
    }
  }
  return hosts;
}

}  // namespace

StatusOr<std::vector<HostSlots>> parse_hosts(const std::string& text, int nproc) {
  std::vector<HostSlots> hosts;
  for (const std::string& part : std::vector<std::string>(absl::StrSplit(text, ','))) {
    TROUPE_ASSIGN_OR_RETURN(auto host, parse_host(part, nproc));
    hosts.push_back(std::move(host));
  }
  return once_each(std::move(hosts));
}

StatusOr<std::vector<HostSlots>> parse_host_file(const std::string& path, int nproc) {
  std::ifstream file(path);
  if (!file) return absl::NotFoundError(absl::StrCat(path, ": there is no such file of hosts"));
  std::vector<HostSlots> hosts;
  int number = 0;
  for (std::string line; std::getline(file, line);) {
    ++number;
    const std::vector<std::string> words =
        absl::StrSplit(line.substr(0, line.find('#')), absl::ByAnyChar(" \t\r"), absl::SkipEmpty());
    if (words.empty()) continue;
    const std::string slots = words.size() == 2 ? absl::StrCat(":", absl::StrReplaceAll(words[1], {{"slots=", ""}})) : "";
    auto host = words.size() <= 2 ? parse_host(words[0] + slots, nproc)
                                  : absl::InvalidArgumentError(absl::StrCat("'", line, "' is not HOST [slots=N]"));
    if (!host.ok()) return absl::InvalidArgumentError(absl::StrCat(path, ":", number, ": ", host.status().message()));
    hosts.push_back(*std::move(host));
  }
  auto all = once_each(std::move(hosts));
  if (!all.ok()) return absl::InvalidArgumentError(absl::StrCat(path, ": ", all.status().message()));
  return all;
}

bool is_this_host(const std::string& host) {
  std::array<char, 256> name{};
  gethostname(name.data(), name.size() - 1);
  return host == "localhost" || host == "127.0.0.1" || host == "::1" || host == name.data();
}

}  // namespace troupe::tool
