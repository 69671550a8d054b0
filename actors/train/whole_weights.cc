#include "actors/train/whole_weights.h"

#include "absl/strings/str_cat.h"
#include "runtime/base/first_cause.h"

namespace troupe::actors {

WholeWeights::WholeWeights(Setup setup) : setup_(std::move(setup)), blocks_(setup_.blocks.size()) {
  on(&WholeWeights::written);
  on(&WholeWeights::wanted);
  on(&WholeWeights::fetched);
}

void WholeWeights::written(WeightsWritten message) {
  queue_.push_back(message);
  fetch_next();
}

void WholeWeights::fetch_next() {
  while (open_ < kBlocksAtOnce && !queue_.empty()) {
    const auto [index, step] = queue_.front();
    queue_.pop_front();
    Block& block = of(index);
    const auto& flat = setup_.weights[static_cast<std::size_t>(index.value)];
    const auto parts = setup_.share.parts(flat.elements());
    block.coming = step;
    for (int member = 0; member < parts.members(); ++member) block.missing += member != setup_.share.member() && parts.size(member) > 0 ? 1 : 0;
    ++open_;
    if (block.missing == 0) {
      complete(block);
      continue;
    }
    for (int member = 0; member < parts.members(); ++member) {
      if (member == setup_.share.member() || parts.size(member) == 0) continue;
      const auto part = flat.rows(parts.begin(member), parts.end(member));
      setup_.fetch(index, member, step, {static_cast<std::byte*>(part.raw()), static_cast<std::size_t>(part.bytes())},
                   [self = self(), index = index](Status result) { self.send(PartFetched{index, std::move(result)}); });
    }
  }
  set_state(open_ > 0 ? trace::State::kWaitingForCollective : trace::State::kIdle, {}, static_cast<std::int64_t>(queue_.size()));
}

void WholeWeights::fetched(PartFetched message) {
  if (!message.result.ok()) {
    fail(reworded(message.result, absl::StrCat("the weights of block ", message.block.value, " cannot be gathered: ",
                                               std::string(message.result.message()))));
    return;
  }
  Block& block = of(message.block);
  if (--block.missing > 0) return;
  complete(block);
  fetch_next();
}

void WholeWeights::complete(Block& block) {
  --open_;
  block.complete = block.coming;
  for (const auto& waiting : block.waiting) {
    TROUPE_CHECK(waiting.step.value - 1 == block.complete.value)
        << name() << ": a pass of step " << waiting.step << " waits for weights of step " << block.complete;
    send(device_, OpenGate{waiting.gate});
  }
  block.waiting.clear();
}

void WholeWeights::wanted(WeightsWanted message) {
  Block& block = of(message.block);
  if (block.complete.value == message.step.value - 1) {
    send(device_, OpenGate{message.gate});
  } else {
    block.waiting.push_back(message);
  }
}

}  // namespace troupe::actors
