#include "runtime/trace/registry.h"

#include <cstdio>

#include "runtime/base/check.h"

namespace troupe::trace {

ProbeRegistry::ProbeRegistry(std::function<std::string(std::uint32_t)> type_name, const Clock* clock)
    : ticks_(clock), rates_(ticks_.now_ns()) {
  texts_.type = std::move(type_name);
  texts_.name = [this](Name name) {
    std::lock_guard lock(mutex_);
    return name.id < names_.size() ? names_[name.id] : std::string();
  };
  texts_.actor = [this](std::uint32_t id) {
    std::lock_guard lock(mutex_);
    return id < actors_.size() ? actors_[id] : std::string();
  };
  actors_.emplace_back();
  names_.emplace_back();
  last_words_ = add_last_words([this] { print_last_events(8); });
}

ProbeRegistry::~ProbeRegistry() { remove_last_words(last_words_); }

void ProbeRegistry::add(std::shared_ptr<Probe> probe) {
  std::lock_guard lock(mutex_);
  order_of_[probe.get()] = next_order_;
  if (actors_.size() <= Probe::kMaxId) {
    probe->set_id(static_cast<std::uint32_t>(actors_.size()));
    actors_.push_back(probe->name());
  }
  live_.emplace(next_order_++, std::move(probe));
  living_ = nullptr;
}

void ProbeRegistry::add(std::shared_ptr<const EdgeProbe> edge) {
  std::lock_guard lock(mutex_);
  edges_.push_back(std::move(edge));
}

void ProbeRegistry::add(std::shared_ptr<const StreamProbe> stream, std::string kind) {
  std::lock_guard lock(mutex_);
  if (stream) streams_.push_back({.probe = std::move(stream), .kind = std::move(kind)});
}

Name ProbeRegistry::intern(const std::string& text) {
  std::lock_guard lock(mutex_);
  if (text.empty()) return Name{};
  const auto [at, fresh] = name_ids_.emplace(text, static_cast<std::uint32_t>(names_.size()));
  if (fresh) names_.push_back(text);
  TROUPE_CHECK(names_.size() < (1u << 24))
      << "too many names for probes: make them when the graph is built, not per message";
  return Name{at->second};
}

void ProbeRegistry::bury(const Probe& probe, std::string cause, std::vector<std::string> chain) {
  std::lock_guard lock(mutex_);
  const auto at = order_of_.find(&probe);
  if (at == order_of_.end()) return;
  Grave grave;
  grave.probe = live_[at->second];
  grave.stone.name = probe.name();
  grave.stone.cause = std::move(cause);
  grave.stone.chain = std::move(chain);
  grave.stone.at_ns = ticks_.now_ns();
  live_.erase(at->second);
  living_ = nullptr;
  order_of_.erase(at);
  if (graves_.size() == kTombstones) {
    graves_.pop_front();
    ++tombstones_dropped_;
  }
  graves_.push_back(std::move(grave));
}

std::shared_ptr<const ProbeRegistry::Living> ProbeRegistry::living() const {
  if (living_ != nullptr) return living_;
  auto now = std::make_shared<Living>();
  for (const auto& [order, probe] : live_) {
    now->orders.push_back(order);
    now->probes.push_back(probe);
  }
  living_ = now;
  return now;
}

Snapshot ProbeRegistry::snapshot(Detail detail, Lists lists) const {
  const auto are_asked = [lists](Lists these) { return lists == Lists::kAll || lists == these; };
  std::shared_ptr<const Living> now;
  std::vector<std::shared_ptr<const EdgeProbe>> edges;
  std::deque<Grave> graves;
  Snapshot result;
  {
    std::lock_guard lock(mutex_);  // for all: who is buried meanwhile is in one of two lists
    if (are_asked(Lists::kActors)) now = living();
    if (are_asked(Lists::kEdges)) edges = edges_;
    if (are_asked(Lists::kTombstones)) graves = graves_;
    result.tombstones_dropped = tombstones_dropped_;
  }
  result.at_ns = ticks_.now_ns();
  if (now != nullptr) {
    result.actors.reserve(now->probes.size());
    for (const auto& probe : now->probes) result.actors.push_back(probe->row(texts_, detail));
    rates_.set(result.actors, now->orders, result.at_ns);
  }
  if (are_asked(Lists::kEdges)) {
    result.edges.reserve(edges.size());
    for (const auto& edge : edges) result.edges.push_back(edge->row());
    rates_.set(result.edges, result.at_ns);
  }
  for (auto& [stone, probe] : graves) {
    ActorRow row = probe->row(texts_, detail);
    stone.sent = row.sent;
    stone.handled = row.handled;
    stone.dead = row.dead;
    stone.dead_letters = std::move(row.dead_letters);
    result.tombstones.push_back(std::move(stone));
  }
  return result;
}

std::size_t ProbeRegistry::live() const {
  std::lock_guard lock(mutex_);
  return live_.size();
}

std::shared_ptr<const Probe> ProbeRegistry::find(const std::string& name) const {
  std::lock_guard lock(mutex_);
  for (const auto& [order, probe] : live_) {
    if (probe->name() == name) return probe;
  }
  return nullptr;
}

std::vector<std::shared_ptr<const Probe>> ProbeRegistry::probes() const {
  std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<const Probe>> all;
  for (const auto& grave : graves_) all.push_back(grave.probe);
  for (const auto& [order, probe] : live_) all.push_back(probe);
  return all;
}

std::shared_ptr<const Probe> ProbeRegistry::find_any(const std::string& name) const {
  if (auto living = find(name)) return living;
  std::lock_guard lock(mutex_);
  for (auto grave = graves_.rbegin(); grave != graves_.rend(); ++grave) {
    if (grave->probe->name() == name) return grave->probe;
  }
  return nullptr;
}

std::vector<std::shared_ptr<const EdgeProbe>> ProbeRegistry::edges() const {
  std::lock_guard lock(mutex_);
  return edges_;
}

std::vector<ProbeRegistry::Stream> ProbeRegistry::streams() const {
  std::lock_guard lock(mutex_);
  return streams_;
}

void ProbeRegistry::print_last_events(int events) const {
  // The dying thread may hold the lock; then there is nothing to say.
  std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock()) return;
  const Texts texts{.name = [this](Name name) { return name.id < names_.size() ? names_[name.id] : std::string(); },
                    .type = texts_.type};
  constexpr int kActors = 64;
  int shown = 0;
  for (const auto& [order, probe] : live_) {
    if (++shown > kActors) {
      std::fprintf(stderr, "... and %zu actors more\n", live_.size() - kActors);
      break;
    }
    const ActorRow row = probe->row(texts, Detail::kBrief);
    std::fprintf(stderr, "actor '%s': %s %s, mailbox %lld, handled %lld\n", row.name.c_str(),
                 trace::name(row.state), row.detail.c_str(), static_cast<long long>(row.depth),
                 static_cast<long long>(row.handled));
    const auto all = probe->events_since(0, texts);
    const std::size_t from = all.rows.size() > static_cast<std::size_t>(events)
                                 ? all.rows.size() - static_cast<std::size_t>(events)
                                 : 0;
    for (std::size_t i = from; i < all.rows.size(); ++i) {
      const EventRow& event = all.rows[i];
      std::fprintf(stderr, "  %.6f s  %s  (%.1f us)\n", seconds(event.at_ns), event.text.c_str(),
                   static_cast<double>(event.duration_ns) * 1e-3);
    }
  }
}

}  // namespace troupe::trace
