// A tiny training run in child processes, for the tests of this folder.
#pragma once

#include <csignal>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/tiny_job.h"
#include "tests/tool/tool_process.h"

namespace troupe::test {

// What of a step must not depend on anything but plan and seed: its line of metrics.jsonl without the times, as text.
struct StepText {
  std::string step, loss, grad_norm, lr, tokens, sample_hash, val_loss;
  friend bool operator==(const StepText&, const StepText&) = default;
  friend std::ostream& operator<<(std::ostream& out, const StepText& text) {
    return out << "step " << text.step << " loss " << text.loss << " norm " << text.grad_norm << " lr " << text.lr << " tokens " << text.tokens << " samples " << text.sample_hash << " val_loss "
               << text.val_loss;
  }
};

inline std::string field_of(const std::string& line, const std::string& key) {
  const auto at = line.find("\"" + key + "\"");
  if (at == std::string::npos) return "";
  const auto begin = line.find(':', at) + 1;
  std::string value = line.substr(begin, line.find_first_of(",}", begin) - begin);
  value.erase(0, value.find_first_not_of(' '));
  return value;
}

inline std::vector<StepText> steps_of(const std::string& output) {
  std::vector<StepText> steps;
  std::istringstream file(read_text(output + "/metrics.jsonl"));
  for (std::string line; std::getline(file, line);) {
    steps.push_back({field_of(line, "step"), field_of(line, "loss"), field_of(line, "grad_norm"), field_of(line, "lr"), field_of(line, "tokens"),
                     field_of(line, "sample_hash"), field_of(line, "val_loss")});
  }
  return steps;
}

// Corpus and config file in a folder of their own; outputs below it.
class TinyRun {
 public:
  TinyRun() {
    corpus_ = make_corpus(folder_.path(), 40);
    std::ofstream(config()) << tiny_config(corpus_, folder_.path() + "/unused");
  }
  const std::string& folder() const { return folder_.path(); }
  std::string config() const { return folder_.path() + "/tiny.toml"; }
  std::string output(const std::string& name) const { return folder_.path() + "/" + name; }

  // Arguments of `troupe train` into output(name).
  std::vector<std::string> train(const std::string& name, std::vector<std::string> more = {}) const {
    std::vector<std::string> arguments{"train", config(), "--job.output=" + output(name), "--data.validation=" + corpus_};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  }

 private:
  TemporaryFolder folder_;
  std::string corpus_;
};

// SIGQUIT shows what every actor waits for: until the ledger waits for the first step.
inline bool is_in_its_first_step(ToolProcess& process) {
  const auto says = [&](const char* text) { return process.err().find(text) != std::string::npos; };
  return wait_until([&] { return says("parameters") || !process.running(); }) && wait_until([&] {
           process.signal(SIGQUIT);
           return says("waiting for input from loss") || !process.running();
         }) && process.running();
}

// Folders of saves that are being written, or were when the run was killed.
inline bool save_under_way(const std::string& output) {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(output + "/checkpoints", error)) {
    if (entry.path().filename().string().starts_with(".writing-")) return true;
  }
  return false;
}

}  // namespace troupe::test
