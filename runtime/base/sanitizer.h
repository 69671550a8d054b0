// Whether this build is a sanitizer's: g++ and clang say it in different words.
#pragma once

#if defined(__SANITIZE_THREAD__)  // g++'s first: its sanitizers' headers define a __has_feature that has none
#define TROUPE_TSAN 1
#elif defined(__SANITIZE_ADDRESS__)
#define TROUPE_ASAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define TROUPE_TSAN 1
#elif __has_feature(address_sanitizer)
#define TROUPE_ASAN 1
#endif
#endif

namespace troupe {

// Everything is ten times slower: tests that repeat do so less often.
#if defined(TROUPE_TSAN) || defined(TROUPE_ASAN)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

}  // namespace troupe
