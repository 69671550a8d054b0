#include "actors/train/stage.h"

#include "actors/train/stage_flight.h"

namespace troupe::actors {

using actor::Delivery;

Stage::Stage(Setup setup)
    : plan_(setup.plan),
      shape_(setup.shape),
      memory_(setup.memory),
      kernels_(setup.kernels),
      stream_(setup.stream),
      seed_(setup.seed),
      shards_(std::move(setup.shards)),
      tied_(std::move(setup.tied)),
      whole_weights_(std::move(setup.whole_weights)),
      weight_rooms_(std::move(setup.weight_rooms)),
      gradient_rooms_(std::move(setup.gradient_rooms)) {
  on(&Stage::task_done);
  on(&Stage::share_ended);
  on(&Stage::pass_reached);
  activation_out.on_credit(&Stage::credit_came);
  gradient_out.on_credit(&Stage::credit_came);
  evaluation_out.on_credit(&Stage::credit_came);

  std::size_t next = 0;
  const auto& model = plan_.model;
  if (memory_.inverse_frequency) models::write_inverse_frequencies(model, memory_.inverse_frequency);
  if (shape_.first()) {
    embedding_.emplace(model, setup.blocks[next].weights, setup.blocks[next].gradients);
    ++next;
  }
  for (int layer = 0; layer < shape_.layers(); ++layer, ++next) {
    const auto frequencies = memory_.inverse_frequency ? device::ConstTensorView(memory_.inverse_frequency.view())
                                                       : device::ConstTensorView();
    layers_.emplace_back(model, shape_.block(layer), setup.blocks[next].weights, setup.blocks[next].gradients, frequencies);
  }
  if (shape_.last()) {
    head_.emplace(model, setup.blocks[next].weights, setup.blocks[next].gradients, setup.projection, setup.projection_gradient,
                  plan_.chunk_tokens);
  }
  for (int slot = shape_.in_flight - 1; slot >= 0; --slot) free_slots_.push_back(slot);
}

Stage::~Stage() = default;

void Stage::connect_to(actor::Ref device, actor::Ref ledger, actor::Ref source) {
  device_ = std::move(device);
  ledger_ = std::move(ledger);
  source_ = std::move(source);
}

void Stage::started() {
  names_ = {.device = name_for(device_.name()), .batch = name_for(batch.name()), .activation = name_for(activation_in.name()),
            .gradient = name_for(gradient_in.name()), .evaluation = name_for(evaluation_in.name())};
  show_state();
}

void Stage::batch_arrived(Delivery<Batch> delivery) {
  batches_.push_back(std::move(delivery));
  start_what_can();
}

void Stage::activation_arrived(Delivery<Activation> delivery) {
  activations_.push_back(std::move(delivery));
  start_what_can();
}

void Stage::gradient_arrived(Delivery<Gradient> delivery) {
  gradients_.push_back(std::move(delivery));
  start_what_can();
}

void Stage::evaluation_batch_arrived(Delivery<Batch> delivery) {
  evaluation_batches_.push_back(std::move(delivery));
  start_what_can();
}

void Stage::evaluation_arrived(Delivery<Activation> delivery) {
  evaluations_.push_back(std::move(delivery));
  start_what_can();
}

void Stage::credit_came() { start_what_can(); }

void Stage::share_ended(ShareEnded message) {
  TROUPE_CHECK(!share_) << name() << " was told twice that the share of step " << message.step << " has ended";
  share_ = message;
  start_what_can();
}

void Stage::start_what_can() {
  start_backward();
  start_forward();
  start_evaluation();
  start_close();
  show_state();
}

void Stage::run(std::unique_ptr<DeviceTask>& place, task::Task<> body, Pass pass) {
  place = std::make_unique<DeviceTask>(std::move(body), self(), static_cast<std::uint64_t>(pass));
  send(device_, RunTask{place.get()});
}

bool Stage::start_forward() {
  if (forward_ || batches_.empty() || (!shape_.first() && activations_.empty()) || free_slots_.empty()) return false;
  if (!shape_.last() && !activation_out.ready()) return false;

  auto flight = std::make_unique<Flight>();
  flight->slot = free_slots_.back();
  free_slots_.pop_back();
  flight->batch = std::move(batches_.front());
  batches_.pop_front();
  flight->step = flight->batch.message.step;
  flight->micro_batch = flight->batch.message.micro_batch;
  if (!shape_.first()) {
    flight->activation = std::move(activations_.front());
    activations_.pop_front();
    TROUPE_CHECK(flight->activation.message.step == flight->step && flight->activation.message.micro_batch == flight->micro_batch)
        << name() << " got the activation of another micro-batch than its batch";
  }
  if (!shape_.last()) {
    flight->out = activation_out.take();
    flight->sent = memory_.activations_out[static_cast<std::size_t>(flight->out.index)];
  }
  forwarding_ = flight.get();
  in_flight_.push_back(std::move(flight));
  run(forward_, forward_pass(*forwarding_), Pass::kForward);
  return true;
}

bool Stage::start_backward() {
  if (backward_ || in_flight_.empty()) return false;
  Flight& flight = *in_flight_.front();
  if (!flight.forwarded || (!shape_.last() && gradients_.empty())) return false;
  if (!shape_.first() && !gradient_out.ready()) return false;
  if (!shape_.last()) {
    flight.gradient = std::move(gradients_.front());
    gradients_.pop_front();
    TROUPE_CHECK(flight.gradient.message.step == flight.step && flight.gradient.message.micro_batch == flight.micro_batch)
        << name() << " got the gradient of another micro-batch than its oldest";
  }
  if (!shape_.first()) {
    flight.gradient_slot = gradient_out.take();
    flight.sent_gradient = memory_.gradients_out[static_cast<std::size_t>(flight.gradient_slot.index)];
  }
  run(backward_, backward_pass(flight), Pass::kBackward);
  return true;
}

bool Stage::start_evaluation() {
  if (evaluation_ || evaluation_batches_.empty() || (!shape_.first() && evaluations_.empty())) return false;
  if (!shape_.last() && !evaluation_out.ready()) return false;
  evaluating_ = std::make_unique<Flight>();
  Flight& flight = *evaluating_;
  flight.evaluates = true;
  flight.batch = std::move(evaluation_batches_.front());
  evaluation_batches_.pop_front();
  flight.step = flight.batch.message.step;
  flight.micro_batch = flight.batch.message.micro_batch;
  if (!shape_.first()) {
    flight.activation = std::move(evaluations_.front());
    evaluations_.pop_front();
  }
  if (!shape_.last()) {
    flight.out = evaluation_out.take();
    flight.sent = memory_.evaluation_out[static_cast<std::size_t>(flight.out.index)];
  }
  run(evaluation_, evaluation_pass(flight), Pass::kEvaluation);
  return true;
}

bool Stage::start_close() {
  if (close_ || !share_ || computed_ < share_->count) return false;
  TROUPE_CHECK(computed_ == share_->count) << name() << " computed " << computed_ << " micro-batches of " << share_->count;
  closing_ = std::make_unique<Flight>();
  closing_->step = share_->step;
  run(close_, close_pass(*closing_, share_->count), Pass::kClose);
  share_.reset();
  computed_ = 0;
  return true;
}

void Stage::pass_reached(PassReached) {
  --unreached_;
  show_state();
}

void Stage::task_done(TaskDone message) {
  ++unreached_;
  stream_.notify([stage = self()](device::StreamContext&) { stage.send(PassReached{}); });
  switch (static_cast<Pass>(message.token)) {
    case Pass::kForward: forward_done(message.done); break;
    case Pass::kBackward: backward_done(message.done); break;
    case Pass::kEvaluation: evaluation_done(message.done); break;
    case Pass::kClose: close_.reset(); break;
  }
  start_what_can();
}

void Stage::forward_done(const device::Event& done) {
  forward_.reset();
  Flight& flight = *std::exchange(forwarding_, nullptr);
  flight.forwarded = true;
  if (!shape_.last()) activation_out.send(flight.out, {flight.step, flight.micro_batch, flight.sent, done});
}

void Stage::backward_done(const device::Event& done) {
  backward_.reset();
  const std::unique_ptr<Flight> flight = std::move(in_flight_.front());
  in_flight_.pop_front();
  if (!shape_.first()) gradient_out.send(flight->gradient_slot, {flight->step, flight->micro_batch, flight->sent_gradient, done});
  flight->batch.credit.release(done);
  flight->activation.credit.release(done);
  flight->gradient.credit.release(done);
  free_slots_.push_back(flight->slot);
  computed_ = flight->batch.message.last ? 0 : computed_ + 1;
}

void Stage::evaluation_done(const device::Event& done) {
  evaluation_.reset();
  const std::unique_ptr<Flight> flight = std::move(evaluating_);
  if (!shape_.last()) evaluation_out.send(flight->out, {flight->step, flight->micro_batch, flight->sent, done});
  flight->batch.credit.release(done);
  flight->activation.credit.release(done);
}

void Stage::show_state() {
  using trace::State;
  if (forward_ || backward_ || evaluation_ || close_ || unreached_ > 0) {
    set_state(State::kReady, {}, -1, names_.device);
  } else if (!in_flight_.empty() && !shape_.first() && !gradient_out.ready() && (shape_.last() || !gradients_.empty())) {
    set_state(State::kWaitingForCredit, gradient_out.trace_name());
  } else if (!batches_.empty() && !shape_.last() && !free_slots_.empty() && !activation_out.ready()) {
    set_state(State::kWaitingForCredit, activation_out.trace_name());
  } else if (!in_flight_.empty() && !shape_.last()) {
    set_state(State::kWaitingForInput, names_.gradient);
  } else if (!batches_.empty() && !shape_.first()) {
    set_state(State::kWaitingForInput, names_.activation);
  } else if (!evaluation_batches_.empty() && !shape_.first() && evaluations_.empty()) {
    set_state(State::kWaitingForInput, names_.evaluation);
  } else if (!evaluation_batches_.empty() && !shape_.last() && !evaluation_out.ready()) {
    set_state(State::kWaitingForCredit, evaluation_out.trace_name());
  } else {
    set_state(State::kWaitingForInput, names_.batch);
  }
}

}  // namespace troupe::actors
