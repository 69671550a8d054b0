// Which ranks share a machine, from what they publish.
#include "comm/machine.h"

#include <gtest/gtest.h>

namespace troupe::comm {
namespace {

TEST(Machine, IsTheSameForEverybodyHere) {
  EXPECT_FALSE(this_machine().empty());
  EXPECT_EQ(this_machine(), this_machine());
  EXPECT_EQ(split_machines({with_machine("a"), with_machine("b")}).node_of, (std::vector{0, 0}));
}

TEST(Machine, ComesBackWithTheAddressAsItWas) {
  const std::string bytes("any\n\0bytes", 10);
  const auto [addresses, node_of] = split_machines({with_machine(bytes, "x/1"), with_machine("", "y"), with_machine("c", "x/1"), with_machine("d", "y")});
  EXPECT_EQ(addresses, (std::vector<std::string>{bytes, "", "c", "d"}));
  EXPECT_EQ(node_of, (std::vector{0, 1, 0, 1}));
}

TEST(Machine, WhoDoesNotTellIsANodeOfItsOwn) {
  const auto [addresses, node_of] = split_machines({with_machine("a", ""), with_machine("b", ""), "12\nan address", "", with_machine("c", "x")});
  EXPECT_EQ(node_of, (std::vector{0, 1, 2, 3, 4}));
  EXPECT_EQ(addresses[2], "12\nan address");
  EXPECT_EQ(addresses[3], "");
}

}  // namespace
}  // namespace troupe::comm
