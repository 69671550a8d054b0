// Whether probes are compiled in: always, but for the build that `troupe bench inspect` measures their cost against (tools/dev/build noprobes).
// Without them an inspector sees names, and no counts, states or times.
#pragma once

namespace troupe::trace {

#if defined(TROUPE_WITHOUT_PROBES)
inline constexpr bool kProbes = false;
#else
inline constexpr bool kProbes = true;
#endif

}  // namespace troupe::trace
