#include "comm/machine.h"

#include <filesystem>
#include <fstream>
#include <map>
#include <system_error>

namespace troupe::comm {
namespace {

constexpr const char* kMark = "machine ";  // and the machine, a line end, the address

}  // namespace

std::string this_machine() {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  std::error_code failed;
  const std::string network = std::filesystem::read_symlink("/proc/self/ns/net", failed);
  return boot.empty() || failed ? std::string() : boot + "/" + network;
}

std::string with_machine(const std::string& address, const std::string& machine) { return kMark + machine + "\n" + address; }

Machines split_machines(const std::vector<std::string>& published) {
  Machines machines;
  std::map<std::string, int> known;
  int nodes = 0;
  for (const std::string& one : published) {
    const std::string mark = kMark;
    const auto end = one.compare(0, mark.size(), mark) == 0 ? one.find('\n') : std::string::npos;
    const std::string machine = end == std::string::npos ? std::string() : one.substr(mark.size(), end - mark.size());
    machines.addresses.push_back(end == std::string::npos ? one : one.substr(end + 1));
    const auto found = known.find(machine);
    if (!machine.empty() && found != known.end()) {
      machines.node_of.push_back(found->second);
    } else {
      known[machine] = nodes;
      machines.node_of.push_back(nodes++);
    }
  }
  return machines;
}

}  // namespace troupe::comm
