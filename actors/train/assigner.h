// Gives out the micro-batches of each step to the replicas that are about to compute them. In rank 0, where replicas pull.
//
// Acts:  MicroBatchAsked -> MicroBatchAssigned, at once or, if the rule (pull_rule.h) has others finish what is left earlier, later: when
//        somebody's progress or some time has passed, at the latest when all are given out. The first question of a step opens it.
//        With a recording (assignment_record.h): at once, what that replica computed then.
// Holds: a question of each replica at most. While one waits and somebody computes, a timer.
// Fails: never. A replica that is gone fails the job elsewhere.
// Threads: an actor's; connect_to before the System starts. Owns: the recording. Errors: a question out of turn is a bug of the source that asked.
// Invariants: each micro-batch of a step goes to one replica (Assigner.GivesEachMicroBatchOnceInTheOrderOfTheQuestions); each replica hears
//        once of the end of its share (Assigner.EndsEveryShareOnce); what is recorded is done again (Records.FollowsARecording).
#pragma once

#include <optional>
#include <vector>

#include "actors/protocol.h"
#include "actors/train/assignment_record.h"
#include "actors/train/pull_rule.h"
#include "runtime/actor/actor.h"

namespace troupe::actors {

class Assigner : public actor::Actor {
 public:
  struct Setup {
    int replicas = 1;
    int micro_batches = 1;         // of a step, over all replicas
    StepId start;                  // the last step that is done
    std::optional<AssignmentRecord> record{};  // followed where given: it has every step to come
  };
  explicit Assigner(Setup setup);
  // By number, all processes of each; they may be elsewhere.
  void connect_to(std::vector<std::vector<actor::Ref>> replicas);

 private:
  struct Reconsider {};
  void started() override;
  void asked(MicroBatchAsked message);
  void reconsider(Reconsider message);
  void open(StepId step);
  void hand_out();
  void follow_record(int replica, StepId step);
  void answer(int replica, std::int32_t micro_batch, bool last);
  void show_state();

  const Setup setup_;
  std::vector<std::vector<actor::Ref>> replicas_;
  PullRule rule_;
  StepId step_;                    // the latest that somebody asked for
  std::vector<bool> asks_;         // by replica
  std::vector<StepId> ended_;      // by replica: the latest step whose share it knows to be complete
  std::vector<std::int32_t> given_; // by replica: of the step after that
  bool timer_ = false;
  struct {
    trace::Name progress;
    std::vector<trace::Name> replicas;  // the agents of their first processes
  } names_;
};

}  // namespace troupe::actors
