// Every command of the binary does what its help says, from text to a trained model's text.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "tests/support/tiny_job.h"
#include "tests/tool/tool_process.h"

namespace troupe::test {
namespace {

namespace fs = std::filesystem;

Ended tool(const std::vector<std::string>& arguments) {
  const TemporaryFolder folder;
  return run_tool(arguments, folder.path());
}

TEST(Commands, EachHasHelp) {
  const std::vector<std::vector<std::string>> commands{
      {}, {"train"}, {"launch"}, {"manifest"}, {"manifest", "slurm"}, {"manifest", "kubernetes"}, {"plan"}, {"generate"}, {"report"}, {"jobs"}, {"inspect"}, {"top"}, {"trace"}, {"pause"}, {"resume"}, {"step"}, {"dashboard"}, {"data"}, {"data", "prepare"}, {"data", "inspect"},
      {"checkpoint"}, {"checkpoint", "inspect"}, {"checkpoint", "verify"},
      {"bench"}, {"bench", "roofline"}, {"bench", "kernels"}, {"bench", "messages"}, {"bench", "comm"}, {"bench", "parallel"}, {"bench", "train"}};
  for (auto command : commands) {
    command.push_back("--help");
    const Ended ended = tool(command);
    EXPECT_EQ(ended.exit_code, 0) << ended.err;
    EXPECT_NE(ended.out.find("Usage"), std::string::npos) << ended.out;
  }
}

TEST(Commands, SaysItsVersion) {
  const Ended ended = tool({"--version"});
  EXPECT_EQ(ended.exit_code, 0);
  EXPECT_TRUE(ended.out.starts_with("troupe ")) << ended.out;
}

TEST(Commands, AWrongCommandLineIsOneLineThatSaysWhatToDo) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> wrong{
      {{}, "which command? See troupe --help"},
      {{"nonsense"}, "there is no command nonsense; see troupe --help"},
      {{"lanch", "--nproc", "2"}, "there is no command lanch; did you mean launch? See troupe --help"},
      {{"--versoin"}, "there is no option --versoin; did you mean --version? See troupe --help"},
      {{"data"}, "data: which command? See troupe data --help"},
      {{"data", "prepair"}, "data: there is no command prepair; did you mean prepare? See troupe data --help"},
      {{"bench", "roofline", "--jsn"}, "bench roofline: there is no option --jsn; did you mean --json? See troupe bench roofline --help"},
      {{"bench", "roofline", "--rounds", "0"}, "bench roofline: --rounds: '0' is not a whole number from 1 to 2147483647; see troupe bench roofline --help"},
      {{"report", "a", "b"}, "report: one word too much: b; see troupe report --help"},
      {{"generate"}, "generate: --checkpoint is required; see troupe generate --help"}};
  for (const auto& [words, said] : wrong) {
    const Ended ended = tool(words);
    EXPECT_EQ(ended.exit_code, 2);
    EXPECT_EQ(ended.out, "");
    EXPECT_EQ(ended.err, "troupe: " + said + "\n");
  }
}

TEST(Commands, PlansEveryShippedConfig) {
  int plans = 0;
  for (const auto& entry : fs::directory_iterator("tools/configs")) {
    if (entry.path().extension() != ".toml") continue;
    ++plans;
    const Ended ended = tool({"plan", entry.path().string()});
    const bool fits = ended.out.find("fits this machine") != std::string::npos;
    EXPECT_EQ(ended.exit_code, fits ? 0 : 1) << entry.path() << ": " << ended.err;
    EXPECT_NE(ended.out.find("parameters"), std::string::npos) << ended.out;
  }
  EXPECT_GE(plans, 5);
}

TEST(Commands, APlanSaysWhichProcessHasWhatAndRefusesACountThatDoesNotWork) {
  const std::vector<std::string> job{"plan", "tools/configs/quickstart.toml", "--parallelism.data_parallel=2", "--parallelism.pipeline=4"};
  auto four = job, three = job;
  four.insert(four.end(), {"--processes", "4"});
  three.insert(three.end(), {"--processes", "3"});
  const std::string planned = tool(four).out;
  for (const char* said : {"in ranks 1 3", "schedule     rehearsed with", "at most 4 of 4 in flight"}) {
    EXPECT_NE(planned.find(said), std::string::npos) << said << " is not in " << planned;
  }
  const Ended refused = tool(three);
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_NE(refused.err.find("Start 2, 4 or 8"), std::string::npos) << refused.err;
}

TEST(Commands, TheLargestIsPlannedAndNotTrained) {
  const Ended planned = tool({"plan", "tools/configs/llama3-405b.toml"});
  EXPECT_EQ(planned.exit_code, 1) << planned.err;
  EXPECT_NE(planned.err.find("choose a smaller model, or at least"), std::string::npos) << planned.err;
  for (const char* said : {"parameters", "FLOP", "optimizer", "activations", "does not fit this machine"}) {
    EXPECT_NE(planned.out.find(said), std::string::npos) << said << " is not in " << planned.out;
  }
  const Ended trained = tool({"train", "tools/configs/llama3-405b.toml", "--data.train=/nonexistent"});
  EXPECT_EQ(trained.exit_code, 1);
  EXPECT_NE(trained.err.find("choose a smaller model, or at least"), std::string::npos) << trained.err;
}

// The keys that scripts read; the numbers are nobody's, on a machine that runs other tests.
TEST(Commands, BenchTrainPrintsItsRowsAsJson) {
  const Ended ended = tool({"bench", "train", "--model", "test-llama", "--batch", "2", "--seq", "32", "--compare-stages", "2", "--json"});
  ASSERT_EQ(ended.exit_code, 0) << ended.err;
  const auto json = nlohmann::json::parse(ended.out, nullptr, false);
  ASSERT_FALSE(json.is_discarded()) << ended.out;
  for (const char* key : {"tokens_per_s", "model_flops_per_s", "matmul_flops_per_s", "ratio"}) EXPECT_GT(json.value(key, 0.0), 0) << key;
  EXPECT_NE(json.value("formula", "").find("6 *"), std::string::npos);
  std::set<std::string> names;
  for (const auto& row : json["rows"]) {
    for (const char* key : {"name", "value", "unit", "bar", "peer", "definition"}) EXPECT_TRUE(row.contains(key)) << key << " of " << row;
    names.insert(row["name"]);
  }
  for (const char* name : {"train.ratio", "train.memory", "train.allocations", "train.data_wait", "train.stages-2"}) EXPECT_EQ(names.count(name), 1u) << name;
}

TEST(Commands, BenchTrainRefusesAModelThatIsNotThereOrDoesNotFit) {
  const Ended unknown = tool({"bench", "train", "--model", "gpt2-125m"});
  EXPECT_EQ(unknown.exit_code, 2);
  EXPECT_NE(unknown.err.find("gpt2-124m"), std::string::npos) << unknown.err;
  const Ended large = tool({"bench", "train", "--model", "llama3-405b"});
  EXPECT_EQ(large.exit_code, 1);
  EXPECT_NE(large.err.find("the machine has"), std::string::npos) << large.err;
}

// Each group of rows, with small jobs: what this build or machine cannot do has a row, too, which says so.
TEST(Commands, BenchParallelPrintsItsRowsAsJson) {
  const Ended ended = tool({"bench", "parallel", "--model", "test-llama", "--batch", "1", "--seq", "32", "--processes", "3", "--json"});
  ASSERT_EQ(ended.exit_code, 0) << ended.err;
  const auto json = nlohmann::json::parse(ended.out, nullptr, false);
  ASSERT_FALSE(json.is_discarded()) << ended.out;
  std::map<std::string, double> values;
  for (const auto& row : json["rows"]) {
    for (const char* key : {"name", "value", "unit", "bar", "peer", "definition"}) EXPECT_TRUE(row.contains(key)) << key << " of " << row;
    const bool measured = row["value"].get<double>() > 0;
    const std::string definition = row["definition"];
    const std::string name = row["name"];
    const bool explained = definition.starts_with("skipped: ") || definition.starts_with("not supported: ");
    EXPECT_TRUE(measured || explained || name.ends_with(".spread") || name.ends_with(".waited_s")) << row;
    values[name] = row["value"];
  }
  for (const char* name :
       {"parallel.slow_link", "parallel.over_ddp", "parallel.over_fsdp2", "parallel.straggler.pull", "parallel.straggler.static"}) {
    EXPECT_EQ(values.count(name), 1u) << name;
  }
  for (const char* name : {"parallel.zero-0", "parallel.zero-1", "parallel.zero-2", "parallel.zero-3", "parallel.join", "parallel.join.memory"}) {
    EXPECT_GT(values[name], 0) << name;
  }
  // Nothing is split there, so that small blocks cost nothing: the formula to the byte.
  EXPECT_NEAR(values["parallel.memory.zero-0"], 1, 0.001);
}

TEST(Commands, BenchParallelRefusesRowsThatThereAreNot) {
  const Ended ended = tool({"bench", "parallel", "--rows", "zero,slow_lnk"});
  EXPECT_EQ(ended.exit_code, 2);
  EXPECT_NE(ended.err.find("slow_link"), std::string::npos) << ended.err;
}

TEST(Commands, ManifestsTakeTheOverridesOfTrainAndRefuseWhatItRefuses) {
  const std::string config = "tools/configs/quickstart.toml";
  const std::vector<std::vector<std::string>> manifests{{"manifest", "slurm"}, {"manifest", "kubernetes", "--image", "image"}};
  const auto with = [&](std::vector<std::string> words, const std::vector<std::string>& overrides) {
    words.push_back(config);
    words.insert(words.end(), overrides.begin(), overrides.end());
    return tool(words);
  };
  for (const auto& manifest : manifests) {
    const Ended printed = with(manifest, {"--training.steps=70", "--parallelism.data_parallel", "2", "--job.output=it's $(here)"});
    EXPECT_EQ(printed.exit_code, 0) << printed.err;
    EXPECT_NE(printed.out.find("train " + config + " --training.steps=70 --parallelism.data_parallel 2 '--job.output=it'"), std::string::npos) << printed.out;
    // As a shell reads it, and before it Kubernetes, where $$ is $.
    const bool shell = manifest[1] == "slurm";
    EXPECT_NE(printed.out.find(shell ? "it'\\''s $(here)'" : "it'\\\\''s $$(here)'"), std::string::npos) << printed.out;
    const std::vector<std::string> wrong{"--training.stepz=7"};
    const Ended refused = with(manifest, wrong);
    EXPECT_EQ(refused.exit_code, 2);
    EXPECT_EQ(refused.out, "");
    EXPECT_NE(refused.err.find("did you mean 'training.steps'?"), std::string::npos) << refused.err;
    EXPECT_EQ(refused.err, with({"train"}, wrong).err);
  }
}

// One run, looked at with every command that looks at runs.
class AfterARun : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new TemporaryFolder;
    fs::create_directories(path("text"));
    for (int i = 0; i < 30; ++i) std::ofstream(path("text/" + std::to_string(i) + ".txt")) << "the edge gives the stage a credit, and the stage " << i << " gives it back\n";
    prepared_ = new Ended(run_tool({"data", "prepare", path("text"), "-o", path("corpus")}, folder_->path()));
    std::ofstream(path("tiny.toml")) << tiny_config(path("corpus"), path("out"));
    trained_ = new Ended(run_tool({"train", path("tiny.toml"), "--device.threads=1"}, folder_->path()));
  }
  static void TearDownTestSuite() {
    delete folder_;
    delete prepared_;
    delete trained_;
  }
  static std::string path(const std::string& name) { return folder_->path() + "/" + name; }
  static std::string checkpoint() { return path("out/checkpoints/step-00000006"); }
  static Ended run(const std::vector<std::string>& arguments) { return run_tool(arguments, folder_->path()); }

  static TemporaryFolder* folder_;
  static Ended *prepared_, *trained_;
};
TemporaryFolder* AfterARun::folder_ = nullptr;
Ended* AfterARun::prepared_ = nullptr;
Ended* AfterARun::trained_ = nullptr;

TEST_F(AfterARun, PreparedAndInspectedAgree) {
  ASSERT_EQ(prepared_->exit_code, 0) << prepared_->err;
  EXPECT_NE(prepared_->out.find("30 documents"), std::string::npos) << prepared_->out;
  const Ended ended = run({"data", "inspect", path("corpus")});
  EXPECT_EQ(ended.exit_code, 0) << ended.err;
  EXPECT_NE(ended.out.find("30"), std::string::npos) << ended.out;
}

TEST_F(AfterARun, InspectFindsAFlippedToken) {
  for (const char* ending : {".bin", ".idx", ".json"}) fs::copy_file(path("corpus") + ending, path("flipped") + ending);
  std::string bytes = read_text(path("flipped.bin"));
  bytes[20] = static_cast<char>(bytes[20] ^ 1);
  std::ofstream(path("flipped.bin"), std::ios::binary) << bytes;
  const Ended ended = run({"data", "inspect", path("flipped")});
  EXPECT_GT(ended.exit_code, 0);
  EXPECT_NE(ended.err.find("flipped"), std::string::npos) << ended.err;
}

TEST_F(AfterARun, GeneratesTheSameTextForTheSameSeed) {
  ASSERT_EQ(trained_->exit_code, 0) << trained_->err;
  const auto text = [](const char* seed) {
    return run({"generate", "--checkpoint", path("out"), "--prompt", "the edge", "--tokens", "40", "--seed", seed});
  };
  const Ended one = text("3"), again = text("3"), other = text("4");
  EXPECT_EQ(one.exit_code, 0) << one.err;
  EXPECT_TRUE(one.out.starts_with("the edge")) << one.out;
  EXPECT_GT(one.out.size(), std::string("the edge\n").size());
  EXPECT_EQ(one.out, again.out);
  EXPECT_NE(one.out, other.out);
}

TEST_F(AfterARun, GenerateNamesAFolderWithoutCheckpoint) {
  const Ended ended = run({"generate", "--checkpoint", path("text")});
  EXPECT_EQ(ended.exit_code, 2);
  EXPECT_NE(ended.err.find(path("text")), std::string::npos) << ended.err;
}

TEST_F(AfterARun, InspectsAndVerifiesTheCheckpoint) {
  const Ended inspected = run({"checkpoint", "inspect", checkpoint()});
  EXPECT_EQ(inspected.exit_code, 0) << inspected.err;
  EXPECT_NE(inspected.out.find("model.embed_tokens.weight"), std::string::npos) << inspected.out;
  EXPECT_EQ(run({"checkpoint", "verify", checkpoint()}).exit_code, 0);
  EXPECT_GT(run({"checkpoint", "verify", path("text")}).exit_code, 0);
}

TEST_F(AfterARun, ReportsWhatTheRunCameTo) {
  const Ended ended = run({"report", path("out")});
  EXPECT_EQ(ended.exit_code, 0) << ended.err;
  EXPECT_NE(ended.out.find("6, 0 skipped"), std::string::npos) << ended.out;
  EXPECT_NE(ended.out.find(checkpoint()), std::string::npos) << ended.out;
  EXPECT_EQ(run({"report", path("text")}).exit_code, 2);
}

// Ten seconds of steps: 1 s waited for data, 1.5 s for checkpoints (one step says half a second more than it took), 1.5 s of a skipped step.
TEST_F(AfterARun, ReportsGoodputAndWhatItWasLostTo) {
  const std::filesystem::path out = path("counted");
  std::filesystem::create_directories(out);
  std::filesystem::copy_file(path("out") + "/config.resolved.toml", out / "config.resolved.toml", std::filesystem::copy_options::overwrite_existing);
  std::ofstream metrics(out / "metrics.jsonl");
  const auto step = [&](int number, double step_s, double data_wait_s, double checkpoint_wait_s, bool skipped) {
    metrics << R"({"step": )" << number << R"(, "loss": 1.5, "grad_norm": 1, "lr": 0.1, "tokens": )" << 100 * number << R"(, "tokens_per_s": 10, "mfu": 0.1, "step_s": )" << step_s
            << R"(, "data_wait_s": )" << data_wait_s << R"(, "checkpoint_wait_s": )" << checkpoint_wait_s << R"(, "sample_hash": "0", "skipped": )" << (skipped ? "true" : "false") << "}\n";
  };
  step(1, 3, 0.5, 0, false);
  step(2, 4, 0, 0.5, false);
  step(3, 2, 0.5, 0, true);
  step(4, 1, 0, 1.5, false);
  metrics.close();
  const Ended ended = run({"report", out});
  EXPECT_EQ(ended.exit_code, 0) << ended.err;
  EXPECT_NE(ended.out.find("goodput              60.00 %: of 10.0 s in steps"), std::string::npos) << ended.out;
  EXPECT_NE(ended.out.find("data 10.00 %, checkpoints 15.00 %, skipped steps 15.00 %"), std::string::npos) << ended.out;
}

}  // namespace
}  // namespace troupe::test
