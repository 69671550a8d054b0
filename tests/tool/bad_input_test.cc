// Bad settings and bad corpora: each gives one clear error that names what is wrong and what is allowed, exit code not 0, and leaves
// the disk as it was. Through the real binary.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/support/tiny_job.h"
#include "tests/tool/tool_process.h"

namespace troupe::test {
namespace {

namespace fs = std::filesystem;

struct BadSetting {
  const char* name;
  std::vector<std::string> overrides;
  std::vector<std::string> said;  // all of these stand in the error
};

void PrintTo(const BadSetting& bad, std::ostream* out) { *out << bad.name; }

// One message: it begins with "troupe: " once, and has no second line unless it counts several faults.
void expect_one_error(const Ended& ended, const std::vector<std::string>& said) {
  EXPECT_GT(ended.exit_code, 0) << ended.err << " signal " << ended.signal;
  EXPECT_EQ(ended.out, "");
  std::size_t errors = 0;
  for (std::size_t at = ended.err.find("troupe: "); at != std::string::npos; at = ended.err.find("troupe: ", at + 1)) ++errors;
  EXPECT_EQ(errors, 1u) << ended.err;
  EXPECT_EQ(ended.err.find("check failed"), std::string::npos) << ended.err;
  for (const auto& part : said) EXPECT_NE(ended.err.find(part), std::string::npos) << "'" << part << "' is not said in: " << ended.err;
}

class BadInput : public testing::Test {
 protected:
  BadInput() : corpus_(make_corpus(folder_.path(), 40)) { std::ofstream(config()) << tiny_config(corpus_, output()); }
  std::string path(const std::string& name) const { return folder_.path() + "/" + name; }
  std::string config() const { return path("tiny.toml"); }
  std::string output() const { return path("out"); }
  Ended train(std::vector<std::string> overrides) const {
    std::vector<std::string> arguments{"train", config()};
    arguments.insert(arguments.end(), overrides.begin(), overrides.end());
    return run_tool(arguments, folder_.path());
  }
  void expect_refused(const std::vector<std::string>& overrides, const std::vector<std::string>& said) const {
    expect_one_error(train(overrides), said);
    EXPECT_FALSE(fs::exists(output())) << "an output folder was made for nothing";
  }
  // A copy of the corpus under another name, without the sidecar unless asked.
  std::string copy_of_corpus(const std::string& name, bool sidecar = false) const {
    for (const char* ending : {".bin", ".idx", ".json"}) {
      if (std::string(ending) == ".json" && !sidecar) continue;
      fs::copy_file(corpus_ + ending, path(name) + ending);
    }
    return path(name);
  }

  TemporaryFolder folder_;
  const std::string corpus_;
};

class BadSettings : public BadInput, public testing::WithParamInterface<BadSetting> {};

TEST_P(BadSettings, AreRefusedByName) { expect_refused(GetParam().overrides, GetParam().said); }

INSTANTIATE_TEST_SUITE_P(
    Each, BadSettings,
    testing::Values(
        BadSetting{"UnknownKey", {"--training.sequence_lenght=64"}, {"training.sequence_lenght", "training.seq_len"}},
        BadSetting{"UnknownSection", {"--trainning.steps=64"}, {"trainning", "training"}},
        BadSetting{"MistypedNumber", {"--training.steps=many"}, {"training.steps", "many", "whole number"}},
        BadSetting{"MistypedChoice", {"--training.dtype=fp31"}, {"training.dtype", "fp31", "bf16", "fp32"}},
        BadSetting{"OutOfRange", {"--training.micro_batch=0"}, {"training.micro_batch", "0", "1 .. "}},
        BadSetting{"HeadsDoNotDivideHidden", {"--model.heads=6"}, {"model.hidden=32", "model.heads=6", "30 or 36", "tiny.toml:"}},
        BadSetting{"KvHeadsDoNotDivideHeads", {"--model.kv_heads=3"}, {"model.kv_heads=3", "model.heads=4", "1, 2, 4"}},
        BadSetting{"OddHeadSize", {"--model.head_dim=7"}, {"model.head_dim=7", "even"}},
        BadSetting{"BatchesThatDoNotDivide", {"--training.global_batch=3", "--training.micro_batch=2"},
                   {"training.global_batch=3", "training.micro_batch=2", "2 or 4"}},
        BadSetting{"SequenceLongerThanTheModel", {"--training.seq_len=65"}, {"training.seq_len=65", "model.max_seq_len=64"}},
        BadSetting{"WarmupLongerThanTheRun", {"--lr_scheduler.warmup_steps=100"}, {"lr_scheduler.warmup_steps=100", "at most", "6"}},
        BadSetting{"TensorParallel", {"--parallelism.tensor=2"}, {"parallelism.tensor=2", "not supported yet", "at most 1"}},
        BadSetting{"BatchTooSmallForTheReplicas", {"--parallelism.data_parallel=3"},
                   {"training.global_batch=4", "parallelism.data_parallel=3", "3 or 6"}},
        BadSetting{"Cuda", {"--device.kind=cuda"}, {"device.kind=cuda", "only cpu"}},
        BadSetting{"MoreStagesThanLayers", {"--parallelism.pipeline=5"}, {"parallelism.pipeline=5", "model.layers=4"}},
        BadSetting{"UnknownPreset", {"--model.name=gpt3"}, {"gpt3"}},
        BadSetting{"ValidationWithoutCorpus", {"--validation.interval=2"}, {"validation.interval=2", "data.validation"}}),
    [](const auto& tried) { return std::string(tried.param.name); });

TEST_F(BadInput, NoSuchConfigFile) {
  expect_one_error(run_tool({"train", path("none.toml")}, folder_.path()), {path("none.toml"), "no such"});
}

TEST_F(BadInput, TomlThatIsNoneIsNamedWithItsLine) {
  std::ofstream(path("broken.toml")) << "[job]\noutput = \"" << output() << "\"\nseed = = 3\n";
  expect_one_error(run_tool({"train", path("broken.toml")}, folder_.path()), {path("broken.toml") + ":3"});
  EXPECT_FALSE(fs::exists(output()));
}

TEST_F(BadInput, AKeyInTheFileIsNamedWithItsLine) {
  std::ofstream(config(), std::ios::app) << "intervall = 3\n";
  const std::string text = read_text(config());
  const auto lines = std::ranges::count(text, '\n');
  expect_refused({}, {config() + ":" + std::to_string(lines), "checkpoint.intervall", "checkpoint.interval"});
}

TEST_F(BadInput, MissingCorpus) { expect_refused({"--data.train=" + path("none")}, {path("none"), "no corpus there"}); }

TEST_F(BadInput, EmptyCorpus) {
  std::ofstream(path("empty.bin"));
  std::ofstream(path("empty.idx"));
  expect_refused({"--data.train=" + path("empty")}, {path("empty.idx"), "empty"});
}

TEST_F(BadInput, TruncatedCorpus) {
  const std::string cut = copy_of_corpus("cut");
  fs::resize_file(cut + ".bin", 300);
  expect_refused({"--data.train=" + cut}, {cut + ".bin", "at byte 300", "ends too early"});
  const std::string cut_index = copy_of_corpus("cut-index");
  fs::resize_file(cut_index + ".idx", fs::file_size(cut_index + ".idx") / 2);
  expect_refused({"--data.train=" + cut_index}, {cut_index + ".idx"});
}

TEST_F(BadInput, CorpusOfAnotherFormat) {
  const std::string other = copy_of_corpus("other");
  std::fstream(other + ".idx", std::ios::in | std::ios::out | std::ios::binary) << "XXXX";
  expect_refused({"--data.train=" + other}, {other + ".idx", "MMIDIDX"});
}

TEST_F(BadInput, CorpusShorterThanASequence) {
  fs::create_directories(path("short-text"));
  std::ofstream(path("short-text/a.txt")) << "few";
  ASSERT_EQ(run_tool({"data", "prepare", path("short-text"), "-o", path("short")}, folder_.path()).exit_code, 0);
  expect_refused({"--data.train=" + path("short")}, {path("short"), "16"});
}

TEST_F(BadInput, VocabularySmallerThanTheTokenizers) {
  expect_refused({"--model.vocab_size=100"}, {"corpus.json", "257", "100"});
}

// Without the sidecar nobody knows before a token is read; then the run ends, naming it, and no step was done.
TEST_F(BadInput, ATokenOutsideTheVocabulary) {
  const std::string bare = copy_of_corpus("bare");
  const Ended ended = train({"--data.train=" + bare, "--model.vocab_size=100"});
  expect_one_error(ended, {bare + ".bin", "0 to 99"});
  EXPECT_EQ(read_text(output() + "/metrics.jsonl"), "");
}

TEST_F(BadInput, AFolderWithoutText) {
  fs::create_directories(path("nothing/below"));
  const Ended ended = run_tool({"data", "prepare", path("nothing"), "-o", path("made")}, folder_.path());
  expect_one_error(ended, {path("nothing"), "no text"});
  EXPECT_FALSE(fs::exists(path("made.bin")) || fs::exists(path("made.idx")) || fs::exists(path("made.json")));
}

TEST_F(BadInput, ACorpusIsNotReplacedUnasked) {
  const auto before = read_text(corpus_ + ".idx");
  const Ended ended = run_tool({"data", "prepare", path("text"), "-o", corpus_}, folder_.path());
  expect_one_error(ended, {corpus_ + ".bin", "exists", "force"});
  EXPECT_EQ(read_text(corpus_ + ".idx"), before);
  EXPECT_EQ(run_tool({"data", "prepare", path("text"), "-o", corpus_, "--force"}, folder_.path()).exit_code, 0);
}

// The negative: with nothing wrong the same command trains.
TEST_F(BadInput, GoodInputTrains) {
  const Ended ended = train({"--device.threads=1"});
  EXPECT_EQ(ended.exit_code, 0) << ended.err;
  EXPECT_EQ(read_metrics(output()).losses.size(), 6u);
}

}  // namespace
}  // namespace troupe::test
