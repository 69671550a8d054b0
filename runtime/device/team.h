// The compute threads of one stream: a fixed team that runs one function on all members and waits for all.
//
// Static partition only, so that the same number of threads gives the same bits. Members spin briefly between two calls,
// then sleep. Threads: run() by one thread, the stream's, which is member 0. Nothing in `body` may throw or call run().
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

namespace troupe::device {

class ThreadTeam {
 public:
  explicit ThreadTeam(int threads);
  ~ThreadTeam();
  ThreadTeam(const ThreadTeam&) = delete;
  ThreadTeam& operator=(const ThreadTeam&) = delete;

  int size() const { return size_; }

  // Calls body(member, size()) once on each member and returns when all have.
  template <class Body>
  void run(const Body& body) {
    if (size_ == 1) {
      body(0, 1);
      return;
    }
    run_erased([](const void* context, int member, int members) { (*static_cast<const Body*>(context))(member, members); },
               &body);
  }
  // Calls body(begin, end) once on each member with its share of [0, count), shares cut at multiples of `grain`.
  template <class Body>
  void split(std::int64_t count, std::int64_t grain, const Body& body) {
    const std::int64_t pieces = (count + grain - 1) / grain;
    if (pieces <= 1) {
      if (count > 0) body(std::int64_t{0}, count);
      return;
    }
    run([&](int member, int members) {
      const std::int64_t begin = pieces * member / members * grain;
      const std::int64_t end = std::min(pieces * (member + 1) / members * grain, count);
      if (begin < end) body(begin, end);
    });
  }

 private:
  using Function = void (*)(const void* context, int member, int members);
  void run_erased(Function function, const void* context);
  void serve(int member);

  const int size_;
  Function function_ = nullptr;
  const void* context_ = nullptr;
  alignas(64) std::atomic<std::uint32_t> round_{0};
  alignas(64) std::atomic<int> busy_{0};
  std::atomic<bool> closing_{false};
  std::vector<std::thread> members_;
};

}  // namespace troupe::device
