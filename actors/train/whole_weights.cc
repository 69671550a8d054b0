#include "actors/train/whole_weights.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "runtime/base/first_cause.h"

namespace troupe::actors {

WholeWeights::WholeWeights(Setup setup) : setup_(std::move(setup)), blocks_(setup_.blocks.size()) {
  on(&WholeWeights::written);
  on(&WholeWeights::wanted);
  on(&WholeWeights::fetched);
}

void WholeWeights::started() {
  weights_ = name_for("weights");
  for (const Rank rank : setup_.ranks) owners_.push_back(name_for(absl::StrCat("@", rank.value)));
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
    for (int member = 0; member < parts.members(); ++member) {
      if (member != setup_.share.member() && parts.size(member) > 0) block.missing.push_back(member);
    }
    ++open_;
    if (block.missing.empty()) {
      complete(block);
      continue;
    }
    for (const int member : block.missing) {
      const auto part = flat.rows(parts.begin(member), parts.end(member));
      setup_.fetch(index, member, step, {static_cast<std::byte*>(part.raw()), static_cast<std::size_t>(part.bytes())},
                   [self = self(), index = index, member](Status result) { self.send(PartFetched{index, member, std::move(result)}); });
    }
  }
  show_state();
}

void WholeWeights::show_state() {
  const auto fetched = std::find_if(blocks_.begin(), blocks_.end(), [](const Block& block) { return !block.missing.empty(); });
  if (fetched == blocks_.end()) return set_state(trace::State::kIdle);
  const auto owner = static_cast<std::size_t>(fetched->missing.front());
  set_state(trace::State::kWaitingForInput, weights_, fetched - blocks_.begin(), owner < owners_.size() ? owners_[owner] : trace::Name());
}

void WholeWeights::fetched(PartFetched message) {
  if (!message.result.ok()) {
    fail(reworded(message.result, absl::StrCat("the weights of block ", message.block.value, " cannot be gathered: ",
                                               std::string(message.result.message()))));
    return;
  }
  Block& block = of(message.block);
  std::erase(block.missing, message.member);
  if (!block.missing.empty()) return show_state();
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
