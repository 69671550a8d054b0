// Two processes with an edge each way, and actors that send along them what can be checked: for tests of far edges over any transport.
//
// Every message says its number, its tensor is filled with values that follow from it on the sender's stream and compared on the
// receiver's, twice, with time in between: who reads too early or overwrites too early is found.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <deque>
#include <memory>
#include <mutex>
#include <vector>

#include "actors/control/far_edge.h"
#include "runtime/base/rng.h"
#include "runtime/device/pool.h"

namespace troupe::test {

struct FarTrafficOptions {
  int messages = 40;
  int credits = 3;
  std::int64_t elements = 100;
  std::uint64_t seed = 0;  // of how long a receiver keeps what came
};

// What both processes have done; any thread.
struct FarTrafficBoard {
  std::atomic<int> done{0};        // actors that have nothing more to do, of four
  std::atomic<std::int64_t> received{0}, wrong{0};  // wrong: tensors that were not what they should be
};

inline std::vector<device::Tensor> far_buffers(device::BufferPool& pool, const FarTrafficOptions& options) {
  std::vector<device::Tensor> buffers;
  for (int i = 0; i < options.credits; ++i) buffers.emplace_back(pool, "edges", device::DType::kF32, device::Shape{options.elements});
  return buffers;
}

inline float far_value(std::int64_t number, std::int64_t at) { return static_cast<float>(number * 1000 + at % 1000); }

template <class T>
class Feeder final : public actor::Actor {
 public:
  Feeder(const FarTrafficOptions& options, std::vector<device::Tensor> buffers, device::Stream& stream, FarTrafficBoard& board)
      : options_(options), buffers_(std::move(buffers)), stream_(stream), board_(board) {
    out.on_credit(&Feeder::go_on);
  }
  actor::Out<T> out{*this, "out"};

 private:
  void started() override { go_on(); }
  void go_on() {
    for (; next_ < options_.messages && out.ready(); ++next_) {
      const auto slot = out.take();
      if (slot.reusable_after.recorded()) stream_.wait(slot.reusable_after);
      const auto& buffer = buffers_[static_cast<std::size_t>(slot.index)];
      stream_.enqueue([view = buffer.view(), number = next_](device::StreamContext&) {
        for (std::int64_t i = 0; i < view.elements(); ++i) view.template data<float>()[i] = far_value(number, i);
      });
      T message{.step = StepId(next_), .micro_batch = MicroBatchId(next_ % 7), .ready = stream_.record()};
      actors::tensor_of(message) = buffer;
      out.send(slot, std::move(message));
    }
    if (next_ == options_.messages && out.in_flight() == 0 && !std::exchange(told_, true)) ++board_.done;
  }

  const FarTrafficOptions options_;
  const std::vector<device::Tensor> buffers_;
  device::Stream& stream_;
  FarTrafficBoard& board_;
  int next_ = 0;
  bool told_ = false;
};

template <class T>
class Drain final : public actor::Actor {
 public:
  Drain(const FarTrafficOptions& options, device::Stream& stream, FarTrafficBoard& board)
      : options_(options), stream_(stream), board_(board), random_({.seed = options.seed, .use = 3}) {}
  actor::In<T> in{*this, "in", &Drain::take};

 private:
  struct Held {
    actor::Delivery<T> delivery;
    device::Event read;
  };
  void take(actor::Delivery<T> delivery) {
    EXPECT_EQ(delivery.message.step, StepId(next_));
    EXPECT_EQ(delivery.message.micro_batch, MicroBatchId(next_ % 7));
    stream_.wait(delivery.message.ready);
    const auto compare = [view = actors::tensor_of(delivery.message).view(), number = next_, &board = board_](device::StreamContext&) {
      for (std::int64_t i = 0; i < view.elements(); ++i) {
        if (view.template data<float>()[i] == far_value(number, i)) continue;
        ++board.wrong;
        return;
      }
    };
    stream_.enqueue(compare);
    stream_.enqueue(compare);
    held_.push_back({std::move(delivery), stream_.record()});
    ++board_.received;
    ++next_;
    const auto most = static_cast<unsigned>(options_.credits);
    const std::size_t keep = next_ == options_.messages ? 0 : random_.at(static_cast<std::uint64_t>(next_)) % most;
    while (held_.size() > keep) {  // in any order
      const auto which = held_.begin() + static_cast<std::ptrdiff_t>(random_.at(1'000'000 + released_++) % held_.size());
      which->delivery.credit.release(which->read);
      held_.erase(which);
    }
    if (next_ == options_.messages) ++board_.done;
  }

  const FarTrafficOptions options_;
  device::Stream& stream_;
  FarTrafficBoard& board_;
  const RandomStream random_;
  std::deque<Held> held_;
  std::uint64_t released_ = 0;
  int next_ = 0;
};

// One of the two: rank 0 sends activations and gets gradients. Its transport has stopped before it goes.
class FarTrafficProcess {
 public:
  FarTrafficProcess(const FarTrafficOptions& options, comm::Transport& transport, actor::System& system, device::Stream& compute,
                    device::Stream& leaving, FarTrafficBoard& board)
      : pool_(4 * options.credits * (options.elements * 4 + device::BufferPool::kAlignment)), far_(system, transport, leaving) {
    if (transport.rank().value == 0) {
      join<actors::Activation, actors::Gradient>(options, transport, system, compute, board, "there", "back");
    } else {
      join<actors::Gradient, actors::Activation>(options, transport, system, compute, board, "back", "there");
    }
    transport.on_peer_down([this](Rank rank, const Status& cause) { far_.peer_down(rank, cause); });
  }
  actors::FarEdges& far() { return far_; }

 private:
  template <class Sent, class Got>
  void join(const FarTrafficOptions& options, comm::Transport& transport, actor::System& system, device::Stream& compute,
            FarTrafficBoard& board, const std::string& sent, const std::string& got) {
    const Rank other(1 - transport.rank().value);
    auto& feeder = system.add<Feeder<Sent>>("feeder", options, far_buffers(pool_, options), compute, board);
    auto& drain = system.add<Drain<Got>>("drain", options, compute, board);
    actor::connect(feeder.out, far_.in<Sent>(other, sent), {.credits = options.credits});
    actor::connect(far_.out<Got>(other, got, far_buffers(pool_, options)), drain.in, {.credits = options.credits});
  }

  device::BufferPool pool_;
  actors::FarEdges far_;
};

}  // namespace troupe::test
