#include "runtime/actor/message.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <memory>
#include <thread>

#include "runtime/actor/sim_world.h"

namespace outside {
struct StepDone {};
template <class T, int n>
struct Box {};
}  // namespace outside

namespace troupe::actor {
namespace {

struct Hidden {};

TEST(MessageName, HasNoNamespaces) {
  struct Local {};
  EXPECT_EQ(message_name<outside::StepDone>(), "StepDone");
  EXPECT_EQ(message_name<Hidden>(), "Hidden");
  EXPECT_EQ(message_name<Local>(), "Local");
  EXPECT_EQ((message_name<outside::Box<outside::StepDone, 3>>()), "Box<StepDone, 3>");
  EXPECT_EQ((message_name<outside::Box<outside::Box<Hidden, 1>, 3>>()), "Box<Box<Hidden, 1>, 3>");
}

TEST(MessageType, HasOneNumberForEachType) {
  const auto one = message_type<outside::StepDone>().index, two = message_type<Hidden>().index;
  EXPECT_NE(one, two);
  EXPECT_EQ(message_type<outside::StepDone>().index, one);
  EXPECT_EQ(message_type_name(one), "StepDone");
  EXPECT_EQ(message_type_name(9999), "?");
}

struct Loss {
  float single;
  double twice;
};
class Keeper final : public Actor {
 public:
  Keeper() { on(&Keeper::keep); }
  void keep(Loss loss) { kept.push_back(loss); }
  std::vector<Loss> kept;
};

// CASES A01: specials pass bit-exact. All classes: sign x {zero, subnormal, normal, infinity, quiet and
// signalling NaN}.
TEST(Message, CarriesEveryClassOfFloatBitExact) {
  SimWorld world(1);
  auto& keeper = world.system().add<Keeper>("keeper");
  world.start();
  const std::vector<std::uint32_t> singles = {
      0x00000000u, 0x80000000u, 0x00000001u, 0x80000001u, 0x007fffffu, 0x00800000u, 0x3f800000u, 0xbf800000u,
      0x7f7fffffu, 0x7f800000u, 0xff800000u, 0x7fc00000u, 0xffc00001u, 0x7f800001u, 0xff800001u, 0x7fffffffu};
  for (const auto bits : singles) {
    const auto wide = static_cast<std::uint64_t>(bits) << 32 | bits;
    keeper.self().send(Loss{std::bit_cast<float>(bits), std::bit_cast<double>(wide)});
  }
  ASSERT_TRUE(world.run().ok());
  ASSERT_EQ(keeper.kept.size(), singles.size());
  for (std::size_t i = 0; i < singles.size(); ++i) {
    EXPECT_EQ(std::bit_cast<std::uint32_t>(keeper.kept[i].single), singles[i]);
    EXPECT_EQ(std::bit_cast<std::uint64_t>(keeper.kept[i].twice),
              static_cast<std::uint64_t>(singles[i]) << 32 | singles[i]);
  }
}

struct alignas(128) Aligned {
  std::unique_ptr<int> value;
};
class Owner final : public Actor {
 public:
  Owner() { on(&Owner::take); }
  void take(Aligned aligned) {
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(&aligned) % 128, 0u);
    got += *aligned.value;
  }
  int got = 0;
};

TEST(Message, MayBeMoveOnlyAndOverAligned) {
  SimWorld world(1);
  auto& owner = world.system().add<Owner>("owner");
  world.start();
  owner.self().send(Aligned{std::make_unique<int>(40)});
  owner.self().send(Aligned{std::make_unique<int>(2)});
  ASSERT_TRUE(world.run().ok());
  EXPECT_EQ(owner.got, 42);
}

// Whatever way a message goes, it dies once.
struct Counted {
  static inline std::atomic<int> alive{0};
  bool counts = true;
  Counted() { ++alive; }
  Counted(Counted&& other) noexcept : counts(std::exchange(other.counts, false)) {}
  Counted& operator=(Counted&&) = delete;
  ~Counted() {
    if (counts) --alive;
  }
};
class Half final : public Actor {
 public:
  Half() { on(&Half::take); }
  void take(Counted) {
    if (++taken == 3) stop();
  }
  int taken = 0;
};

TEST(Message, DiesOnceWhereverItEnds) {
  {
    SimWorld world(3);
    auto& half = world.system().add<Half>("half");
    world.start();
    for (int i = 0; i < 10; ++i) half.self().send(Counted{});
    EXPECT_EQ(Counted::alive, 10);
    ASSERT_TRUE(world.run().ok());
    EXPECT_EQ(half.taken, 3);
    half.self().send(Counted{});  // to the dead
  }
  EXPECT_EQ(Counted::alive, 0);
}

}  // namespace
}  // namespace troupe::actor
