// The process's log: one line a message on stderr, "HH:MM:SS.mmm L text", through spdlog, which no header shows.
// Threads: any. Compose the text with absl::StrCat / StrFormat.
#pragma once

#include <string_view>

namespace troupe {

enum class LogLevel { kDebug, kInfo, kWarning, kError };

void log(LogLevel level, std::string_view text);
void set_log_level(LogLevel lowest);

inline void log_info(std::string_view text) { log(LogLevel::kInfo, text); }
inline void log_warning(std::string_view text) { log(LogLevel::kWarning, text); }
inline void log_error(std::string_view text) { log(LogLevel::kError, text); }

}  // namespace troupe
