// All probes of one actor system: who lives, who ended and why, and the last words when a check fails.
//
// Threads: add_*, intern, bury and the readers by any thread, behind one lock that no handler of the step
// path takes: probes are added while the graph is built, a tombstone is written when an actor ends. Limits:
// kTombstones, the oldest go first and are counted.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <mutex>

#include "runtime/trace/edge_probe.h"
#include "runtime/trace/probe.h"
#include "runtime/trace/stream_probe.h"
#include "runtime/trace/rates.h"

namespace troupe::trace {

class ProbeRegistry {
 public:
  static constexpr std::size_t kTombstones = 256;

  // `type_name` turns a process-wide message type number into its name. `clock` as in Ticks.
  ProbeRegistry(std::function<std::string(std::uint32_t)> type_name, const Clock* clock);
  ~ProbeRegistry();
  ProbeRegistry(const ProbeRegistry&) = delete;
  ProbeRegistry& operator=(const ProbeRegistry&) = delete;

  const Ticks& ticks() const { return ticks_; }
  void add(std::shared_ptr<Probe> probe);
  void add(std::shared_ptr<const EdgeProbe> edge);
  // `kind` as in SCHEMA.md.
  void add(std::shared_ptr<const StreamProbe> stream, std::string kind);
  Name intern(const std::string& text);
  // Takes the probe off the list of the living.
  void bury(const Probe& probe, std::string cause, std::vector<std::string> chain);

  // With rates, see rates.h.
  Snapshot snapshot(Detail detail = Detail::kAll, Lists lists = Lists::kAll) const;
  std::size_t live() const;
  // The probe of a living actor; null if there is none of that name.
  std::shared_ptr<const Probe> find(const std::string& name) const;
  struct Stream {
    std::shared_ptr<const StreamProbe> probe;
    std::string kind;
  };
  std::vector<Stream> streams() const;
  // All actors that have a tombstone or live; for who wants their events.
  std::vector<std::shared_ptr<const Probe>> probes() const;
  // The probe of an actor that lives, or else of the last of that name that ended; null if there is none.
  std::shared_ptr<const Probe> find_any(const std::string& name) const;
  // All edges, for who looks often and wants no texts.
  std::vector<std::shared_ptr<const EdgeProbe>> edges() const;
  const Texts& texts() const { return texts_; }
  // The last `events` events of each living actor, a line each, to stderr. The last words of a failed check.
  void print_last_events(int events) const;

 private:
  // The living as a snapshot goes through them: of ten thousand the nodes of the map, each in another place of the memory, take as long as all else.
  struct Living {
    std::vector<std::uint64_t> orders;
    std::vector<std::shared_ptr<Probe>> probes;
  };
  std::shared_ptr<const Living> living() const;  // with the lock held

  const Ticks ticks_;
  Texts texts_;
  mutable Rates rates_;
  mutable std::mutex mutex_;                              // guards what follows
  std::map<std::uint64_t, std::shared_ptr<Probe>> live_;  // in the order in which they were added
  mutable std::shared_ptr<const Living> living_;          // live_, or null
  std::map<const Probe*, std::uint64_t> order_of_;
  std::uint64_t next_order_ = 0;
  std::deque<std::string> actors_;  // by id, as far as there are ids
  std::vector<std::shared_ptr<const EdgeProbe>> edges_;
  std::vector<Stream> streams_;
  std::deque<std::string> names_;
  std::map<std::string, std::uint32_t> name_ids_;
  struct Grave {
    Tombstone stone;
    std::shared_ptr<const Probe> probe;  // dead letters still arrive
  };
  std::deque<Grave> graves_;
  std::int64_t tombstones_dropped_ = 0;
  int last_words_ = 0;
};

}  // namespace troupe::trace
