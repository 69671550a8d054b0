// Who this process is, from every launcher's variables; half, wrong and contradicting ones are refused by name.
#include <gtest/gtest.h>

#include <map>

#include "comm/join/environment.h"

namespace troupe::comm {
namespace {

using Variables = std::map<std::string, std::string>;

StatusOr<Place> find(const Variables& variables) {
  return find_place([&](const char* name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  });
}
Variables operator+(Variables a, const Variables& b) {
  for (const auto& [name, value] : b) a[name] = value;
  return a;
}

const Variables kTroupe{{"TROUPE_RANK", "1"},
                        {"TROUPE_WORLD_SIZE", "4"},
                        {"TROUPE_LOCAL_RANK", "1"},
                        {"TROUPE_LOCAL_WORLD_SIZE", "2"},
                        {"TROUPE_STORE", "10.0.0.1:7000"},
                        {"TROUPE_SECRET", "s"}};
const Variables kTorchrun{
    {"RANK", "1"},           {"WORLD_SIZE", "4"}, {"LOCAL_RANK", "1"}, {"LOCAL_WORLD_SIZE", "2"}, {"MASTER_ADDR", "node0"},
    {"MASTER_PORT", "29500"}};
const Variables kSlurm{{"SLURM_PROCID", "1"},
                       {"SLURM_NTASKS", "4"},
                       {"SLURM_LOCALID", "1"},
                       {"SLURM_STEP_TASKS_PER_NODE", "2(x2)"},
                       {"SLURM_STEP_NODELIST", "n[07-08]"},
                       {"SLURM_NODEID", "0"},
                       {"SLURM_JOB_ID", "42"},
                       {"SLURM_STEP_ID", "3"},
                       {"SLURM_LAUNCH_NODE_IPADDR", "10.0.0.7"}};
const Variables kOpenMpi{{"OMPI_COMM_WORLD_RANK", "1"},
                         {"OMPI_COMM_WORLD_SIZE", "4"},
                         {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                         {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                         {"OMPI_MCA_orte_hnp_uri", "250544128.0;tcp://192.0.2.2,10.1.0.2:56015;tcp6://[fd00::2]:52955"},
                         {"OMPI_MCA_orte_precondition_transports", "c8-cf"}};
// As torchrun --nnodes=2 --nproc_per_node=2 sets them (torch/distributed/elastic/agent/server/local_elastic_agent.py), on the second node.
const Variables kElastic = kTorchrun + Variables{{"RANK", "2"}, {"LOCAL_RANK", "0"}, {"GROUP_RANK", "1"}, {"ROLE_RANK", "2"}, {"ROLE_NAME", "default"},
                                                 {"GROUP_WORLD_SIZE", "2"}, {"ROLE_WORLD_SIZE", "4"}, {"TORCHELASTIC_RESTART_COUNT", "0"},
                                                 {"TORCHELASTIC_MAX_RESTARTS", "3"}, {"TORCHELASTIC_RUN_ID", "run"},
                                                 {"TORCHELASTIC_USE_AGENT_STORE", "False"}};
// As srun -N2 sets them for the one torchrun, or troupe launch, of the second node.
const Variables kSlurmAround = kSlurm + Variables{{"SLURM_PROCID", "1"}, {"SLURM_NTASKS", "2"}, {"SLURM_LOCALID", "0"},
                                                  {"SLURM_STEP_TASKS_PER_NODE", "1(x2)"}, {"SLURM_NODEID", "1"}};
const Variables kOpenMpiAround = kOpenMpi + Variables{{"OMPI_COMM_WORLD_SIZE", "2"}, {"OMPI_COMM_WORLD_LOCAL_RANK", "0"},
                                                      {"OMPI_COMM_WORLD_LOCAL_SIZE", "1"}};

struct Found {
  const char* name;
  Variables variables;
  const char* found_in;
  int rank, world, local_rank, local_world;
  const char* store_host;
  bool hosts_store;
};

class Place_ : public testing::TestWithParam<Found> {};

TEST_P(Place_, IsFound) {
  const Found& wanted = GetParam();
  const auto place = find(wanted.variables);
  ASSERT_TRUE(place.ok()) << place.status().message();
  EXPECT_EQ(place->found_in, wanted.found_in);
  EXPECT_EQ(place->rank, Rank{wanted.rank});
  EXPECT_EQ(place->world, wanted.world);
  EXPECT_EQ(place->local_rank, wanted.local_rank);
  EXPECT_EQ(place->local_world, wanted.local_world);
  EXPECT_EQ(place->store_host, wanted.store_host);
  EXPECT_EQ(place->hosts_store, wanted.hosts_store);
  if (place->world > 1) {
    EXPECT_GT(place->store_port, 0);
    EXPECT_LT(place->store_port, 65536);
    EXPECT_FALSE(place->secret.empty());
  }
}

INSTANTIATE_TEST_SUITE_P(
    Each, Place_,
    testing::Values(
        Found{"Alone", {}, "alone", 0, 1, 0, 1, "", false},
        Found{"Troupe", kTroupe, "troupe launch", 1, 4, 1, 2, "10.0.0.1", false},
        Found{"TroupeRankZeroHostsNothing", kTroupe + Variables{{"TROUPE_RANK", "0"}, {"TROUPE_LOCAL_RANK", "0"}},
              "troupe launch", 0, 4, 0, 2, "10.0.0.1", false},
        Found{"Torchrun", kTorchrun, "torchrun variables", 1, 4, 1, 2, "node0", false},
        Found{"TorchrunRankZeroHosts", kTorchrun + Variables{{"RANK", "0"}, {"LOCAL_RANK", "0"}}, "torchrun variables", 0, 4, 0,
              2, "node0", true},
        Found{"TorchrunOfOneMachineWithoutLocalWorld",
              {{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"LOCAL_RANK", "1"}, {"MASTER_ADDR", "127.0.0.1"}, {"MASTER_PORT", "1234"}},
              "torchrun variables",
              1,
              2,
              1,
              2,
              "127.0.0.1",
              false},
        Found{"MasterAddressAloneIsNoJob", {{"MASTER_ADDR", "node0"}, {"MASTER_PORT", "29500"}}, "alone", 0, 1, 0, 1, "", false},
        Found{"Slurm", kSlurm, "Slurm", 1, 4, 1, 2, "n07,10.0.0.7", false},
        Found{"SlurmRankZeroHosts", kSlurm + Variables{{"SLURM_PROCID", "0"}, {"SLURM_LOCALID", "0"}}, "Slurm", 0, 4, 0, 2,
              "n07,10.0.0.7", true},
        Found{"SlurmOfUnequalNodes",
              kSlurm +
                  Variables{
                      {"SLURM_PROCID", "3"}, {"SLURM_LOCALID", "0"}, {"SLURM_STEP_TASKS_PER_NODE", "3,1"}, {"SLURM_NODEID", "1"}},
              "Slurm", 3, 4, 0, 1, "n07,10.0.0.7", false},
        Found{"SlurmOfOneNodeMeetsOnLoopback",
              kSlurm + Variables{{"SLURM_STEP_NODELIST", "n7"}, {"SLURM_STEP_TASKS_PER_NODE", "4"}}, "Slurm", 1, 4, 1, 4,
              "127.0.0.1", false},
        Found{"SlurmBatchScriptIsAlone",
              {{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "8"}, {"SLURM_LOCALID", "0"}, {"SLURM_JOB_ID", "42"}},
              "alone",
              0,
              1,
              0,
              1,
              "",
              false},
        Found{"SlurmInteractiveStepIsAlone", kSlurm + Variables{{"SLURM_STEP_ID", "4294967290"}}, "alone", 0, 1, 0, 1, "", false},
        Found{"SlurmStepOfOneTaskIsAlone", kSlurm + Variables{{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "1"}}, "alone", 0, 1, 0, 1,
              "", false},
        Found{"SlurmStepOfOneTaskByPmixIsAlone",
              kSlurm + Variables{{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "1"}, {"PMIX_RANK", "0"}}, "alone", 0, 1, 0, 1, "", false},
        Found{"OpenMpiByPmix", kOpenMpi + Variables{{"PMIX_RANK", "1"}}, "Open MPI", 1, 4, 1, 2, "192.0.2.2,10.1.0.2", false},
        Found{"OpenMpi", kOpenMpi, "Open MPI", 1, 4, 1, 2, "192.0.2.2,10.1.0.2", false},
        Found{"OpenMpiOfOneNodeMeetsOnLoopback", kOpenMpi + Variables{{"OMPI_COMM_WORLD_LOCAL_SIZE", "4"}}, "Open MPI", 1, 4, 1,
              4, "127.0.0.1", false},
        Found{"OurLauncherSaysTheSameInTorchrunsWords", kTroupe + kTorchrun, "troupe launch", 1, 4, 1, 2, "10.0.0.1", false},
        Found{"AllFourAgree", kTroupe + kTorchrun + kSlurm + kOpenMpi, "troupe launch inside Open MPI inside Slurm", 1, 4, 1, 2, "10.0.0.1", false},
        Found{"TorchVariablesThatAgree", kTorchrun + kSlurm + kOpenMpi, "torchrun variables inside Slurm", 1, 4, 1, 2, "node0", false},
        Found{"TorchrunInsideSlurm", kElastic + kSlurmAround, "torchrun variables inside Slurm", 2, 4, 0, 2, "node0", false},
        Found{"TorchrunInsideOpenMpi", kElastic + kOpenMpiAround, "torchrun variables inside Open MPI", 2, 4, 0, 2, "node0", false},
        Found{"LaunchInsideSlurm", kTroupe + kTorchrun + kSlurmAround, "troupe launch inside Slurm", 1, 4, 1, 2, "10.0.0.1", false},
        Found{"LaunchInsideHalfOfSlurm", kTroupe + Variables{{"SLURM_STEP_ID", "0"}, {"SLURM_NTASKS", "2"}}, "troupe launch inside Slurm", 1,
              4, 1, 2, "10.0.0.1", false},
        Found{"LaunchInsideOpenMpi", kTroupe + kTorchrun + kOpenMpiAround, "troupe launch inside Open MPI", 1, 4, 1, 2, "10.0.0.1", false},
        // Open MPI's daemons are a step of Slurm's, with a task a node; where mpirun itself runs there is none.
        Found{"OpenMpiInsideSlurm", kOpenMpi + kSlurmAround, "Open MPI inside Slurm", 1, 4, 1, 2, "192.0.2.2,10.1.0.2", false},
        Found{"TheStoreCanBeSaid", kSlurm + Variables{{"TROUPE_STORE", "[fd00::7]:9000"}}, "Slurm", 1, 4, 1, 2, "fd00::7", false},
        Found{"EmptyIsNotSet", kTroupe + Variables{{"RANK", ""}}, "troupe launch", 1, 4, 1, 2, "10.0.0.1", false}),
    [](const auto& tried) { return std::string(tried.param.name); });

struct Refused {
  const char* name;
  Variables variables;
  std::vector<std::string> said;
};

class WrongPlace : public testing::TestWithParam<Refused> {};

TEST_P(WrongPlace, IsRefusedByName) {
  const auto place = find(GetParam().variables);
  ASSERT_FALSE(place.ok()) << place->found_in;
  EXPECT_EQ(place.status().code(), absl::StatusCode::kInvalidArgument);
  for (const auto& part : GetParam().said)
    EXPECT_NE(place.status().message().find(part), std::string::npos) << part << " is not in: " << place.status().message();
}

INSTANTIATE_TEST_SUITE_P(
    Each, WrongPlace,
    testing::Values(
        Refused{
            "RanksContradict", kTroupe + kTorchrun + Variables{{"RANK", "0"}}, {"TROUPE_RANK says 1", "RANK says 0", "unset"}},
        Refused{"WorldsContradict",
                kTorchrun + kOpenMpi + Variables{{"OMPI_COMM_WORLD_SIZE", "8"}},
                {"WORLD_SIZE says 4", "OMPI_COMM_WORLD_SIZE says 8", "unset"}},
        // RANK without TORCHELASTIC_* may be anybody's.
        Refused{"RankSetByHandInsideSlurm",
                kTorchrun + kSlurm + Variables{{"RANK", "2"}, {"LOCAL_RANK", "0"}},
                {"RANK says 2 (torchrun variables)", "SLURM_PROCID says 1 (Slurm)", "unset"}},
        Refused{"LaunchAndTorchrunContradict",
                kTroupe + kElastic,
                {"TROUPE_RANK says 1 (troupe launch)", "RANK says 2 (torchrun variables)", "unset"}},
        Refused{"LocalRanksContradict",
                kTorchrun + kOpenMpi + Variables{{"LOCAL_RANK", "0"}},
                {"LOCAL_RANK says 0", "OMPI_COMM_WORLD_LOCAL_RANK says 1"}},
        Refused{"LocalWorldsContradict",
                kTorchrun + kSlurm + Variables{{"LOCAL_WORLD_SIZE", "4"}},
                {"LOCAL_WORLD_SIZE says 4", "SLURM_STEP_TASKS_PER_NODE says 2"}},
        Refused{"HalfOfTroupe", {{"TROUPE_RANK", "0"}}, {"TROUPE_RANK=0", "TROUPE_WORLD_SIZE", "are not", "unset"}},
        Refused{"TroupeWithoutSecret", kTroupe + Variables{{"TROUPE_SECRET", ""}}, {"TROUPE_SECRET is not", "troupe launch"}},
        Refused{"TroupeWithoutStore", kTroupe + Variables{{"TROUPE_STORE", ""}}, {"TROUPE_STORE is not", "troupe launch"}},
        Refused{"StoreWithoutRank", {{"TROUPE_STORE", "a:1"}}, {"TROUPE_STORE=a:1", "TROUPE_RANK is not"}},
        Refused{"HalfOfTorchrun",
                {{"RANK", "0"}, {"WORLD_SIZE", "2"}},
                {"RANK=0", "WORLD_SIZE=2", "LOCAL_RANK, MASTER_ADDR, MASTER_PORT are not"}},
        Refused{"LoneLocalWorldSize", {{"LOCAL_WORLD_SIZE", "2"}}, {"LOCAL_WORLD_SIZE=2", "RANK"}},
        Refused{"TorchrunOfManyMachinesWithoutLocalWorld",
                kTorchrun + Variables{{"LOCAL_WORLD_SIZE", ""}},
                {"MASTER_ADDR=node0", "LOCAL_WORLD_SIZE"}},
        Refused{"HalfOfSlurm",
                {{"SLURM_STEP_ID", "0"}, {"SLURM_NTASKS", "2"}, {"SLURM_JOB_ID", "1"}},
                {"SLURM_PROCID, SLURM_LOCALID are not", "srun"}},
        Refused{"SlurmWithoutTasksPerNode",
                kSlurm + Variables{{"SLURM_STEP_TASKS_PER_NODE", ""}},
                {"SLURM_STEP_TASKS_PER_NODE", "srun"}},
        Refused{"HalfOfOpenMpi", {{"OMPI_COMM_WORLD_RANK", "0"}}, {"OMPI_COMM_WORLD_RANK=0", "OMPI_COMM_WORLD_SIZE", "mpirun"}},
        Refused{"PmixRankAlone", {{"PMIX_RANK", "1"}, {"PMIX_NAMESPACE", "prterun-1"}}, {"PMIX_RANK=1", "how many ranks", "mpirun", "unset PMIX_RANK"}},
        Refused{"OpenMpiOfManyNodesWithoutAddress",
                kOpenMpi + Variables{{"OMPI_MCA_orte_hnp_uri", ""}},
                {"OMPI_MCA_orte_hnp_uri", "TROUPE_STORE"}},
        Refused{"RankIsNoNumber", kTorchrun + Variables{{"RANK", "one"}}, {"RANK=one", "whole number"}},
        Refused{"RankIsNegative", kTorchrun + Variables{{"RANK", "-1"}}, {"RANK=-1", "0 .."}},
        Refused{"WorldIsHuge", kTorchrun + Variables{{"WORLD_SIZE", "99999999999999999999"}}, {"WORLD_SIZE=9999"}},
        Refused{
            "RankIsNotInTheWorld", kTroupe + Variables{{"TROUPE_RANK", "4"}}, {"TROUPE_RANK=4", "less than TROUPE_WORLD_SIZE=4"}},
        Refused{"LocalRankIsNotOnTheNode", kTorchrun + Variables{{"LOCAL_RANK", "2"}}, {"LOCAL_RANK=2", "LOCAL_WORLD_SIZE=2"}},
        Refused{"MoreOnTheNodeThanInTheWorld",
                kTorchrun + Variables{{"LOCAL_WORLD_SIZE", "5"}},
                {"LOCAL_WORLD_SIZE=5", "WORLD_SIZE=4"}},
        Refused{"PortIsNone", kTorchrun + Variables{{"MASTER_PORT", "70000"}}, {"MASTER_PORT=70000", "65535"}},
        Refused{"StoreIsNone", kTroupe + Variables{{"TROUPE_STORE", "nowhere"}}, {"TROUPE_STORE=nowhere", "host:port"}}),
    [](const auto& tried) { return std::string(tried.param.name); });

TEST(JoinEnvironment, AllRanksDeriveTheSamePortAndSecret) {
  for (const auto& [variables, rank, local_rank] : {std::tuple(kSlurm, "SLURM_PROCID", "SLURM_LOCALID"),
                                                    std::tuple(kOpenMpi, "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK")}) {
    const auto one = find(variables), zero = find(variables + Variables{{rank, "0"}, {local_rank, "0"}});
    ASSERT_TRUE(one.ok() && zero.ok());
    EXPECT_EQ(one->store_port, zero->store_port);
    EXPECT_EQ(one->secret, zero->secret);
  }
  // and two steps of a job do not
  const auto one = find(kSlurm), other = find(kSlurm + Variables{{"SLURM_STEP_ID", "4"}});
  ASSERT_TRUE(one.ok() && other.ok());
  EXPECT_NE(one->store_port, other->store_port);
  EXPECT_NE(one->secret, other->secret);
}

// What is left of a former run of the job does not know the next one's secret, whoever said it.
TEST(JoinEnvironment, ARestartHasAnotherSecret) {
  const auto one_node = kElastic + Variables{{"RANK", "1"}, {"LOCAL_RANK", "1"}, {"LOCAL_WORLD_SIZE", "4"}};
  for (const auto& variables : {one_node, one_node + Variables{{"TROUPE_SECRET", "mine"}}}) {
    const auto first = find(variables), again = find(variables + Variables{{"TORCHELASTIC_RESTART_COUNT", "1"}});
    ASSERT_TRUE(first.ok() && again.ok());
    EXPECT_NE(first->secret, again->secret);
  }
  const auto first = find(kSlurm), requeued = find(kSlurm + Variables{{"SLURM_RESTART_COUNT", "1"}});
  ASSERT_TRUE(first.ok() && requeued.ok());
  EXPECT_NE(first->secret, requeued->secret);
  // Agents of several nodes need not agree about the count.
  const auto here = find(kElastic), there = find(kElastic + Variables{{"TORCHELASTIC_RESTART_COUNT", "1"}});
  ASSERT_TRUE(here.ok() && there.ok());
  EXPECT_EQ(here->secret, there->secret);
}

TEST(JoinEnvironment, SaysHowOftenItWasStartedAgain) {
  const auto restarts = [](const Variables& variables) { return find(variables).value().restarts; };
  EXPECT_EQ(restarts({}), -1) << "nobody counts";
  EXPECT_EQ(restarts(kOpenMpi), -1);
  EXPECT_EQ(restarts(kElastic + Variables{{"TORCHELASTIC_RESTART_COUNT", "0"}}), 0);
  EXPECT_EQ(restarts(kElastic + Variables{{"TORCHELASTIC_RESTART_COUNT", "2"}}), 2);
  EXPECT_EQ(restarts(kSlurm), 0) << "it says nothing the first time";
  EXPECT_EQ(restarts(kSlurm + Variables{{"SLURM_RESTART_COUNT", "3"}}), 3);
  EXPECT_EQ(restarts(kElastic + Variables{{"TORCHELASTIC_RESTART_COUNT", "2"}, {"SLURM_RESTART_COUNT", "1"}}), 3) << "each of the two did";
  EXPECT_EQ(restarts(kSlurm + Variables{{"SLURM_RESTART_COUNT", "often"}}), -1);
}

TEST(JoinEnvironment, SaysWhereItHasGuessedTheStoresHost) {
  const auto guess = [](const Variables& variables) { return find(variables).value().store_guess; };
  EXPECT_NE(guess(kOpenMpi).find("OMPI_MCA_orte_hnp_uri"), std::string::npos);
  EXPECT_NE(guess(kSlurm).find("SLURM_STEP_NODELIST=n[07-08]"), std::string::npos);
  for (const auto& variables : {kOpenMpi, kSlurm}) {
    EXPECT_NE(guess(variables).find("set TROUPE_STORE=host:port of rank 0"), std::string::npos);
    EXPECT_EQ(guess(variables + Variables{{"TROUPE_STORE", "a:1"}}), "");
  }
  EXPECT_EQ(guess(kOpenMpi + Variables{{"OMPI_COMM_WORLD_LOCAL_SIZE", "4"}}), "");
  EXPECT_EQ(guess(kElastic + kSlurmAround), "");
  EXPECT_EQ(guess(kTroupe), "");
}

// Where torchrun's agent listens on MASTER_PORT itself.
TEST(JoinEnvironment, TakesAnotherPortThanTorchrunsAgent) {
  const auto place = find(kTorchrun + Variables{{"TORCHELASTIC_USE_AGENT_STORE", "True"}});
  ASSERT_TRUE(place.ok());
  EXPECT_EQ(place->store_port, 29501);
}

TEST(JoinEnvironment, ReadsTheFirstOfANodeList) {
  for (const auto& [list, first] : Variables{{"n1", "n1"},
                                             {"n1,n2", "n1"},
                                             {"n[03-05,9],x", "n03"},
                                             {"a[1,2]b,c", "a1b"},
                                             {"x,n[1-2]", "x"},
                                             {"rack[1-2]n[3-4]", "rack1n3"},
                                             {"r[07,9]c[1-2]n[010-020],z", "r07c1n010"},
                                             {"r[1-2]n[3", ""},
                                             {"n[4]", "n4"},
                                             {"", ""},
                                             {"n[1", ""}}) {
    EXPECT_EQ(first_of_node_list(list), first) << list;
  }
}

TEST(JoinEnvironment, SeveralRanksOnOneOfSeveralHostsHaveARelayInTheFirst) {
  const Variables first{{"RANK", "2"}, {"LOCAL_RANK", "0"}, {"TROUPE_SECRET", "s"}}, second{{"RANK", "3"}, {"TROUPE_SECRET", "s"}},
      root{{"RANK", "0"}, {"LOCAL_RANK", "0"}, {"TROUPE_SECRET", "s"}}, other{{"TROUPE_SECRET", "t"}};
  const auto runs = find(kTorchrun + first), comes = find(kTorchrun + second), store = find(kTorchrun + root);
  EXPECT_TRUE(runs->hosts_relay && !runs->hosts_store);
  EXPECT_FALSE(comes->hosts_relay);
  EXPECT_TRUE(store->hosts_store && !store->hosts_relay);
  EXPECT_NE(comes->relay, "");
  EXPECT_EQ(runs->relay, comes->relay);
  EXPECT_EQ(store->relay, comes->relay) << "on its host the store is there";
  EXPECT_NE(find(kTorchrun + other)->relay, comes->relay) << "another job's";
  // Alone on its host, or on the only one.
  EXPECT_EQ(find(kTorchrun + first + Variables{{"LOCAL_WORLD_SIZE", "1"}})->relay, "");
  EXPECT_EQ(find(kTorchrun + Variables{{"LOCAL_WORLD_SIZE", "4"}})->relay, "");
  EXPECT_FALSE(find(kTorchrun + first + Variables{{"LOCAL_WORLD_SIZE", "1"}})->hosts_relay);
  // Under our launcher its agent runs it, and says where.
  EXPECT_EQ(find(kTroupe)->relay, "");
  const auto told = find(kTroupe + Variables{{"TROUPE_LOCAL_RANK", "0"}, {"TROUPE_RELAY", "here"}});
  EXPECT_EQ(told->relay, "here");
  EXPECT_FALSE(told->hosts_relay);
}

}  // namespace
}  // namespace troupe::comm
