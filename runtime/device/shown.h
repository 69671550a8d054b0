// Work that whoever looks inside sees as an operation (runtime/trace/stream_probe.h). On a stream without a probe it is just work.
// Threads: as the stream's enqueue.
#pragma once

#include <utility>

#include "runtime/device/stream.h"
#include "runtime/trace/stream_probe.h"

namespace troupe::device {

// One piece of work that is an operation: stream.notify(shown(stream, {"write", ...}, [...](StreamContext&) {...})).
template <class F>
Work shown(Stream& stream, const trace::Operation& operation, F function) {
  trace::StreamProbe* const probe = stream.probe();
  if (probe == nullptr) return Work(std::move(function));
  probe->queued();
  return Work([probe, operation, function = std::move(function)](StreamContext& context) mutable {
    struct Running {
      trace::StreamProbe& probe;
      ~Running() { probe.end(); }
    };
    probe->begin(operation);
    const Running running{*probe};
    return function(context);
  });
}

// What is enqueued between these two is one operation; for streams that one actor enqueues to. The end is for a notify of its own.
inline void begin_shown(Stream& stream, const trace::Operation& operation) {
  trace::StreamProbe* const probe = stream.probe();
  if (probe == nullptr) return;
  probe->queued();
  stream.notify([probe, operation](StreamContext&) { probe->begin(operation); });
}
inline void end_shown(trace::StreamProbe* probe) {
  if (probe != nullptr) probe->end();
}

}  // namespace troupe::device
