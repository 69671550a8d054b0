#include "actors/train/batch_feed.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "runtime/device/shown.h"

namespace troupe::actors {
namespace {

// Fills the rows of one batch: everything a read needs, by value.
struct Reading {
  const data::SampleSource* source;
  std::int64_t batch, seq_len;
  std::vector<SampleId> samples;
  std::vector<models::MicroBatchInputs> into;  // per stage

  Status operator()(device::StreamContext&) const {
    const auto& first = into.front();
    for (std::int64_t row = 0; row < batch; ++row) {
      const auto part = [&](const device::Tensor& tensor) {
        return std::span(tensor.view().data<std::int32_t>() + row * seq_len, static_cast<std::size_t>(seq_len));
      };
      const SampleId sample = samples[static_cast<std::size_t>(row)];
      TROUPE_RETURN_IF_ERROR(source->fill(
          sample, {part(first.tokens), part(first.targets), part(first.positions), part(first.document_start)}));
      kernels::put_sample_id(first.sample_ids.view().data<std::int32_t>(), row, sample.value);
    }
    for (std::size_t stage = 1; stage < into.size(); ++stage) {
      const auto copy = [](const device::Tensor& from, const device::Tensor& to) {
        std::copy_n(from.view().data<std::int32_t>(), from.view().elements(), to.view().data<std::int32_t>());
      };
      copy(first.tokens, into[stage].tokens);
      copy(first.targets, into[stage].targets);
      copy(first.positions, into[stage].positions);
      copy(first.document_start, into[stage].document_start);
      copy(first.sample_ids, into[stage].sample_ids);
    }
    return ok();
  }
};

}  // namespace

BatchFeed::BatchFeed(actor::Actor& owner, Setup setup) : setup_(std::move(setup)) {
  for (std::size_t stage = 0; stage < setup_.inputs.size(); ++stage) {
    outs_.push_back(std::make_unique<actor::Out<Batch>>(owner, absl::StrCat(setup_.port, stage)));
  }
}

bool BatchFeed::read(const BatchPlace& place, const actor::Ref& owner) {
  if (!std::all_of(outs_.begin(), outs_.end(), [](const auto& out) { return out->ready(); })) return false;
  Pending pending{.place = place, .slots = {}};
  Reading reading{.source = &setup_.source, .batch = setup_.geometry.batch, .seq_len = setup_.geometry.seq_len, .samples = {}, .into = {}};
  for (std::int64_t row = 0; row < setup_.geometry.batch; ++row) reading.samples.push_back(setup_.samples(place, row));
  for (std::size_t stage = 0; stage < outs_.size(); ++stage) {
    pending.slots.push_back(outs_[stage]->take());
    const auto& slot = pending.slots.back();
    if (slot.reusable_after.recorded()) setup_.loader.wait(slot.reusable_after);
    reading.into.push_back((*setup_.inputs[stage])[static_cast<std::size_t>(slot.index)]);
  }
  pending_.push_back(std::move(pending));
  setup_.loader.notify(device::shown(setup_.loader, {.what = "read batch", .step = place.step.value, .micro_batch = place.micro_batch.value}, [reading = std::move(reading), owner](device::StreamContext& context) {
    owner.send(BatchRead{reading(context)});
  }));
  return true;
}

void BatchFeed::read_done() {
  const auto first = std::find_if(pending_.begin(), pending_.end(), [](const Pending& pending) { return !pending.read; });
  TROUPE_CHECK(first != pending_.end()) << "a read ended that was not started";
  first->read = true;
}

void BatchFeed::hand_over() {
  TROUPE_CHECK(has_read()) << "no batch was read";
  Pending pending = std::move(pending_.front());
  pending_.pop_front();
  for (std::size_t stage = 0; stage < outs_.size(); ++stage) {
    const auto& slot = pending.slots[stage];
    outs_[stage]->send(slot, Batch{pending.place.step, pending.place.micro_batch,
                                   (*setup_.inputs[stage])[static_cast<std::size_t>(slot.index)], pending.place.last});
  }
}

}  // namespace troupe::actors
