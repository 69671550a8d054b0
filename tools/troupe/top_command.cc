#include <unistd.h>

#include <csignal>
#include <ctime>

#include "absl/strings/str_cat.h"
#include "actors/inspect/http.h"
#include "actors/inspect/views.h"
#include "tools/top/poller.h"
#include "tools/top/screen.h"
#include "tools/troupe/commands.h"
#include "tools/troupe/running_jobs.h"

namespace troupe::tool {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;

constexpr auto kInterval = 1s;
constexpr auto kAnswersWithin = 4s;  // ranks get less, kScreenPatience
constexpr char kScreenPatience[] = "patience_s=0.7";
constexpr auto kRedrawn = 500ms;  // how old a picture is, is said on it
constexpr auto kLastAnswer = 100ms;

double now_unix_s() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

StatusOr<json> answer_of(const RunningJob& job, const std::string& target) {
  TROUPE_ASSIGN_OR_RETURN(std::string text, ask(job, target, kAnswersWithin));
  if (target.starts_with("/v1/frame")) {
    TROUPE_ASSIGN_OR_RETURN(text, actors::with_waits(std::move(text)));
  }
  auto answer = json::parse(text, nullptr, false);
  if (!answer.is_object()) return absl::DataLossError("the answer is no JSON: does the job run another version?");
  return answer;
}

top::Answer look(const std::string& id, const std::string& opened) {
  const auto job = running_job(id);
  if (!job.ok()) return {.frame = job.status(), .ended = absl::IsNotFound(job.status())};
  top::Answer answer{.frame = answer_of(*job, absl::StrCat("/v1/frame?", kScreenPatience)), .opened = opened};
  if (opened.empty() || !answer.frame.ok()) return answer;
  const std::string query = absl::StrCat("?", kScreenPatience, "&ranks=", opened.substr(0, opened.find('/')), "&actor=", actors::in_query(opened));
  answer.mailbox = answer_of(*job, "/v1/mailbox" + query);
  answer.peek = answer_of(*job, "/v1/peek" + query);
  return answer;
}

void take_in(top::Model& model, top::Answer answer) {
  if (answer.ended) return model.job_ended(now_unix_s());
  if (answer.frame.ok()) model.frame(*std::move(answer.frame), now_unix_s());
  else model.no_answer(std::string(answer.frame.status().message()));
  if (answer.opened.empty()) return;
  if (answer.mailbox.ok()) model.actor(answer.opened, *std::move(answer.mailbox), answer.peek.ok() ? *std::move(answer.peek) : json());
  else model.actor(answer.opened, {}, {}, std::string(answer.mailbox.status().message()));
}

// The signal that ended it, or 0.
int shown_until_end(top::Model& model, top::Poller& poller, top::Screen& screen) {
  while (!model.leaves()) {
    screen.show(model.lines(screen.size(), now_unix_s()));
    const top::Event event = screen.wait(kRedrawn, poller.waker());
    if (event.kind == top::Event::kOver) return event.number == 0 ? SIGHUP : event.number;
    if (event.kind == top::Event::kKey) model.key(event.number);
    if (event.kind == top::Event::kWoken) {
      if (auto answer = poller.take()) take_in(model, *std::move(answer));
    }
    poller.open(model.opened());
  }
  return 0;
}

}  // namespace

Status top(const TopArguments& arguments) {
  TROUPE_ASSIGN_OR_RETURN(const RunningJob job, running_job(arguments.job));
  TROUPE_ASSIGN_OR_RETURN(auto screen, top::Screen::open());
  const std::string id = job.card().job;
  top::Model model(id);
  top::Poller poller([id](const std::string& opened) { return look(id, opened); }, kInterval);
  const int signal = shown_until_end(model, poller, *screen);
  screen.reset();
  // As anything dies of these; Ctrl-C is how one leaves.
  if (signal != 0 && signal != SIGINT) {
    std::signal(signal, SIG_DFL);
    raise(signal);
  }
  if (!poller.ends_within(kLastAnswer)) _exit(0);  // a job that does not answer is not waited for
  return ok();
}

}  // namespace troupe::tool
