#include "runtime/base/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace troupe {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

enum class Color { kRed, kBlue };

struct Settings {
  std::int64_t steps = 100;
  int seq_len = 32;
  bool resume = true;
  double lr = 1e-3;
  std::string output;
  Color color = Color::kRed;
  std::optional<int> heads;
  std::vector<std::string> files;
  std::vector<std::int64_t> sizes;
};

struct World {
  Settings settings;
  ConfigSchema schema;

  World() {
    schema.add("training.steps", &settings.steps, "steps").at_least(1).known_as({"max_steps"});
    schema.add("training.seq_len", &settings.seq_len, "tokens")
        .between(1, 4096)
        .alias("training.sequence")
        .known_as({"sequence_length"});
    schema.add("checkpoint.resume", &settings.resume, "go on");
    schema.add("optimizer.lr", &settings.lr, "rate").at_least(0).below(10);
    schema.add("job.output", &settings.output, "folder");
    schema
        .add_choice("job.color", &settings.color,
                    {{"red", Color::kRed}, {"blue", Color::kBlue}, {"azure", Color::kBlue}}, "paint")
        .option("color");
    schema.add("model.heads", &settings.heads, "heads").at_least(1);
    schema.add("data.files", &settings.files, "files");
    schema.add("data.sizes", &settings.sizes, "sizes").at_least(1);
    schema.refuse("compile", "remove the section");
    schema.refuse("training.dataset", "use data.files");
  }
  std::string parse(std::string_view text) { return std::string(schema.parse(text, "a.toml").message()); }
  std::string override_with(const std::vector<std::string>& words) {
    return std::string(schema.override_with(words).message());
  }
};

TEST(Config, ReadsEveryTypeAndKeepsDefaultsOfWhatIsNotGiven) {
  World world;
  EXPECT_EQ(world.parse(
                "job.output = \"runs/x\"\njob.color = \"Blue\"\n[training]\nsteps = 5\n[optimizer]\nlr = 1\n"
                "[model]\nheads = 8\n[data]\nfiles = [\"a\", \"b\"]\nsizes = [1, 2]\n[checkpoint]\nresume = "
                "false\n"),
            "");
  EXPECT_EQ(world.settings.steps, 5);
  EXPECT_EQ(world.settings.seq_len, 32);
  EXPECT_EQ(world.settings.lr, 1.0);
  EXPECT_FALSE(world.settings.resume);
  EXPECT_EQ(world.settings.output, "runs/x");
  EXPECT_EQ(world.settings.color, Color::kBlue);
  EXPECT_EQ(world.settings.heads, 8);
  EXPECT_EQ(world.settings.files, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(world.settings.sizes, (std::vector<std::int64_t>{1, 2}));
  EXPECT_EQ(world.schema.origin("training.steps").text(), "a.toml:4");
  EXPECT_EQ(world.schema.origin("training.seq_len").text(), "default");
}

TEST(Config, RefusesAnUnknownKeyAndNamesTheNearest) {
  EXPECT_EQ(World().parse("\n[training]\nstep = 5\n"),
            "a.toml:3: unknown key 'training.step'; did you mean 'training.steps'?");
  // a slip in what other trainers call it
  EXPECT_THAT(World().parse("training.sequence_lenght = 5"), HasSubstr("did you mean 'training.seq_len'?"));
  // the right name in another section, or in none
  EXPECT_THAT(World().parse("[model]\nseq_len = 5"), HasSubstr("did you mean 'training.seq_len'?"));
  EXPECT_THAT(World().parse("steps = 5"), HasSubstr("did you mean 'training.steps'?"));
  // nothing near: what there is
  EXPECT_EQ(World().parse("[training]\nxyzzy = 5"),
            "a.toml:2: unknown key 'training.xyzzy'; [training] has steps, seq_len");
  EXPECT_EQ(World().parse("zz = 5"),
            "a.toml:1: unknown key 'zz'; write SECTION.KEY, where the sections are training, checkpoint, "
            "optimizer, job, "
            "model, data");
  EXPECT_THAT(World().parse("trainingsteps = 5"), HasSubstr("did you mean 'training.steps'?"));
  EXPECT_THAT(World().parse("\"training.steps\" = 5"), HasSubstr("unknown"));
}

TEST(Config, RefusesAnUnknownSectionOnce) {
  EXPECT_EQ(World().parse("[trainig]\nsteps = 5\nseq_len = 4\n"),
            "a.toml:1: unknown section [trainig]; did you mean [training]?");
  EXPECT_EQ(World().parse("[xyzzy]\n"),
            "a.toml:1: unknown section [xyzzy]; there are training, checkpoint, optimizer, job, model, data");
}

TEST(Config, RefusesAWrongTypeWithLineValueAndWantedType) {
  EXPECT_EQ(World().parse("[training]\nsteps = \"many\""),
            "a.toml:2: training.steps = \"many\" is a string; it must be a whole number");
  EXPECT_THAT(World().parse("training.steps = 1.5"), HasSubstr("1.5 is a number; it must be a whole number"));
  EXPECT_THAT(World().parse("optimizer.lr = true"), HasSubstr("true is true or false; it must be a number"));
  EXPECT_THAT(World().parse("checkpoint.resume = 1"), HasSubstr("it must be true or false"));
  EXPECT_THAT(World().parse("job.output = 2024-01-01"), HasSubstr("a date or time"));
  EXPECT_THAT(World().parse("data.sizes = [1, \"a\"]"), HasSubstr("it must be a list of whole numbers"));
  EXPECT_THAT(World().parse("data.files = [[\"a\"]]"), HasSubstr("it must be a list of strings"));
  EXPECT_THAT(World().parse("[training.steps]\nx = 1"),
              HasSubstr("training.steps is a setting, not a section"));
  EXPECT_THAT(World().parse("training = 1"), HasSubstr("training is a section, not a setting"));
  EXPECT_THAT(World().parse("[[training]]\nsteps = 1"), HasSubstr("training is a section, not a setting"));
  World world;
  (void)world.parse("training.steps = \"many\"");
  EXPECT_EQ(world.settings.steps, 100);
}

TEST(Config, RefusesAValueOutOfRangeAndSaysWhatIsAllowed) {
  EXPECT_EQ(World().parse("training.steps = 0"),
            "a.toml:1: training.steps = 0 is out of range: allowed at least 1");
  EXPECT_EQ(World().parse("training.seq_len = 5000"),
            "a.toml:1: training.seq_len = 5000 is out of range: allowed 1 .. 4096");
  EXPECT_THAT(World().parse("optimizer.lr = 10.0"), HasSubstr("allowed at least 0 and below 10"));
  EXPECT_THAT(World().parse("optimizer.lr = nan"), HasSubstr("must be finite"));
  EXPECT_THAT(World().parse("optimizer.lr = inf"), HasSubstr("must be finite"));
  EXPECT_THAT(World().parse("job.color = \"green\""), HasSubstr("must be one of red | blue"));
  EXPECT_THAT(World().parse("model.heads = 3000000000"), HasSubstr("allowed 1 .. 2147483647"));
  EXPECT_THAT(World().parse("data.sizes = [4, 0]"), HasSubstr("out of range"));
  EXPECT_EQ(World().parse("optimizer.lr = 0"), "");
}

TEST(Config, RefusesAKeyGivenTwiceThroughAnAlias) {
  EXPECT_EQ(World().parse("[training]\nsequence = 4\nseq_len = 5\n"),
            "a.toml:3: training.seq_len is given twice: as 'training.sequence' (a.toml:2) and as "
            "'training.seq_len' "
            "(a.toml:3); keep one");
  EXPECT_THAT(World().override_with({"--training.sequence=4", "--training.seq_len=4"}),
              HasSubstr("given twice"));
  World world;
  EXPECT_EQ(world.parse("training.sequence = 4"), "");
  EXPECT_EQ(world.settings.seq_len, 4);
  EXPECT_THAT(World().parse("training.sequence = 0"),
              HasSubstr("training.sequence (here training.seq_len) = 0"));
}

TEST(Config, RefusesWhatOthersHaveWithWhatToDo) {
  EXPECT_EQ(World().parse("[compile]\nenable = true\nmode = 1"),
            "a.toml:1: compile is not supported: remove the section");
  EXPECT_THAT(World().parse("training.dataset = \"c4\""),
              HasSubstr("training.dataset is not supported: use data.files"));
  EXPECT_THAT(World().override_with({"--compile.enable"}), HasSubstr("compile.enable is not supported"));
}

TEST(Config, ListsAllErrorsOfAConfig) {
  World world;
  EXPECT_NE(world.parse("[training]\nsteps = 0\nfoo = 1\n[trainig]\na = 1\n[optimizer]\nlr = \"x\"\n"), "");
  const std::string all = world.override_with({"--job.colour=red"});
  EXPECT_THAT(all, HasSubstr("5 errors:\n"));
  EXPECT_THAT(all, HasSubstr("a.toml:2: training.steps = 0"));
  EXPECT_THAT(all, HasSubstr("a.toml:3: unknown key 'training.foo'"));
  EXPECT_THAT(all, HasSubstr("a.toml:4: unknown section [trainig]"));
  EXPECT_THAT(all, HasSubstr("a.toml:7: optimizer.lr"));
  EXPECT_THAT(all, HasSubstr("command line: unknown key 'job.colour'; did you mean 'job.color'?"));
}

TEST(Config, OverridesWin) {
  World world;
  ASSERT_EQ(world.parse("training.seq_len = 7\ntraining.steps = 9\njob.output = \"a\"\n"), "");
  ASSERT_EQ(world.override_with({"--training.sequence=8", "--training.steps", "1_000", "--optimizer.lr=-0.0",
                                 "--color", "azure", "--checkpoint.resume", "false", "--data.files=x,y",
                                 "--data.sizes=[3, 4]", "--job.output=", "--training.steps=12"}),
            "");
  EXPECT_EQ(world.settings.seq_len, 8);
  EXPECT_EQ(world.settings.steps, 12);
  EXPECT_FALSE(world.settings.resume);
  EXPECT_EQ(world.settings.color, Color::kBlue);
  EXPECT_EQ(world.settings.output, "");
  EXPECT_EQ(world.settings.files, (std::vector<std::string>{"x", "y"}));
  EXPECT_EQ(world.settings.sizes, (std::vector<std::int64_t>{3, 4}));
  EXPECT_EQ(world.schema.origin("training.seq_len").text(), "command line");
  World dashes;
  ASSERT_EQ(dashes.override_with({"--training.seq-len=3", "--checkpoint.resume", "--optimizer.lr", "1e-5"}),
            "");
  EXPECT_EQ(dashes.settings.seq_len, 3);
  EXPECT_TRUE(dashes.settings.resume);
  EXPECT_EQ(dashes.settings.lr, 1e-5);
}

TEST(Config, RefusesOverridesThatDoNotFit) {
  EXPECT_EQ(World().override_with({"--training.sequence_lenght=64"}),
            "command line: unknown key 'training.sequence_lenght'; did you mean 'training.seq_len'?");
  EXPECT_EQ(World().override_with({"--training.steps=ten"}),
            "command line: training.steps = ten is not a whole number");
  EXPECT_THAT(World().override_with({"--training.steps=5x"}), HasSubstr("5x is not a whole number"));
  EXPECT_THAT(World().override_with({"--training.steps="}), HasSubstr("is not a whole number"));
  EXPECT_THAT(World().override_with({"--training.steps=99999999999999999999"}),
              HasSubstr("is not a whole number"));
  EXPECT_THAT(World().override_with({"--training.steps=-3"}), HasSubstr("out of range"));
  EXPECT_EQ(World().override_with({"--training.steps"}),
            "command line: --training.steps needs a value: a whole number");
  EXPECT_THAT(World().override_with({"--training.steps", "--checkpoint.resume"}), HasSubstr("needs a value"));
  EXPECT_THAT(World().override_with({"--checkpoint.resume=yes"}), HasSubstr("yes is not true or false"));
  EXPECT_THAT(World().override_with({"training.steps=5"}), HasSubstr("write --section.key=value"));
  EXPECT_THAT(World().override_with({"--training=5"}), HasSubstr("training is a section"));
  EXPECT_THAT(World().override_with({"--job.output=\xff"}), HasSubstr("not valid UTF-8"));
  EXPECT_THAT(World().override_with({"--data.sizes=1,b"}), HasSubstr("is not a list of whole numbers"));
  // the word after an unknown key is its value, not a second error
  EXPECT_THAT(World().override_with({"--training.foo", "5"}), Not(HasSubstr("errors")));
}

TEST(Config, LaterFilesWinOverEarlierOnes) {
  World world;
  ASSERT_EQ(world.parse("training.steps = 1"), "");
  ASSERT_TRUE(world.schema.parse("training.steps = 2", "b.toml").ok());
  EXPECT_EQ(world.settings.steps, 2);
  EXPECT_EQ(world.schema.origin("training.steps").text(), "b.toml:1");
}

TEST(Config, ResolvedTextReadsBackToTheSameValues) {
  World world;
  world.settings.lr = 0.1 + 0.2;
  world.settings.steps = std::int64_t{1} << 62;
  world.settings.output = "a \"b\"\\\n\t# é";
  world.settings.color = Color::kBlue;
  world.settings.files = {"x", "y z"};
  world.settings.sizes = {1, 2, 3};
  const std::string text = world.schema.resolved();
  EXPECT_THAT(text, HasSubstr("# heads is not given"));
  EXPECT_THAT(text, HasSubstr("color = \"blue\""));
  EXPECT_THAT(text, HasSubstr("# tokens (1 .. 4096)\nseq_len = 32\n"));
  World back;
  ASSERT_EQ(back.parse(text), "") << text;
  EXPECT_EQ(back.settings.lr, world.settings.lr);
  EXPECT_EQ(back.settings.steps, world.settings.steps);
  EXPECT_EQ(back.settings.output, world.settings.output);
  EXPECT_EQ(back.settings.color, world.settings.color);
  EXPECT_EQ(back.settings.files, world.settings.files);
  EXPECT_EQ(back.settings.sizes, world.settings.sizes);
  EXPECT_FALSE(back.settings.heads.has_value());
  EXPECT_EQ(back.schema.resolved(), text);
}

TEST(Config, RefusesAFileThatIsNoConfig) {
  World missing;
  const Status status = missing.schema.parse_file("/nonexistent/a.toml");
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()), HasSubstr("/nonexistent/a.toml: no such config file"));
  // the error stays, whatever comes later
  EXPECT_EQ(missing.schema.override_with({}).code(), absl::StatusCode::kNotFound);
  const std::string folder = ::testing::TempDir();
  EXPECT_THAT(std::string(World().schema.parse_file(folder).message()), HasSubstr("is a folder"));
  const std::string path = folder + "/troupe_config_test_big.toml";
  std::ofstream(path) << std::string((1 << 20) + 1, '#');
  EXPECT_THAT(std::string(World().schema.parse_file(path).message()), HasSubstr("is it a config?"));
  std::ofstream(path) << "a = = 1\n";
  EXPECT_THAT(std::string(World().schema.parse_file(path).message()), HasSubstr(path + ":1: not valid TOML"));
  std::filesystem::remove(path);
}

TEST(Config, DeclaringAKeyTwiceIsABug) {
  World world;
  std::int64_t other = 0;
  EXPECT_DEATH(world.schema.add("training.steps", &other, ""), "declared twice");
}

}  // namespace
}  // namespace troupe
