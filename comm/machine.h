// Which ranks share a machine: said beside the address that a rank publishes, read from all addresses.
//
//   join(place, with_machine(transport->address()), ...);
//   auto [addresses, node_of] = split_machines(joined.addresses());
//   transport->set_peers(addresses);  engine.add_group(id, members, node_of of the members);
//
// A machine is a kernel and a network namespace: processes in other namespaces stand for other hosts, as in tests and containers. Who
// cannot tell where it runs is a node of its own.
// Threads: any. Errors: none; an address that was published without a machine is a node of its own and stays as it is.
#pragma once

#include <string>
#include <vector>

namespace troupe::comm {

std::string this_machine();  // empty: unknown
std::string with_machine(const std::string& address, const std::string& machine = this_machine());

struct Machines {
  std::vector<std::string> addresses;  // by rank
  std::vector<int> node_of;            // by rank; numbers in the order of the first ranks
};
Machines split_machines(const std::vector<std::string>& published);

}  // namespace troupe::comm
