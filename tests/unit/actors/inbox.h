// An actor that keeps what it gets, in the place of one that a tested actor speaks to.
#pragma once

#include <tuple>
#include <utility>
#include <vector>

#include "runtime/actor/actor.h"

namespace troupe::test {

template <class... Messages>
class Inbox final : public actor::Actor {
 public:
  Inbox() { (on(&Inbox::template take<Messages>), ...); }

  template <class M>
  const std::vector<M>& of() const {
    return std::get<std::vector<M>>(got_);
  }
  template <class M>
  std::size_t count() const {
    return of<M>().size();
  }
  template <class M>
  const M& last() const {
    return of<M>().back();
  }

 private:
  template <class M>
  void take(M message) {
    std::get<std::vector<M>>(got_).push_back(std::move(message));
  }
  std::tuple<std::vector<Messages>...> got_;
};

}  // namespace troupe::test
