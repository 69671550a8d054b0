#include "runtime/base/log.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

namespace troupe {
namespace {

spdlog::logger& logger() {
  static auto instance = [] {
    auto made = std::make_shared<spdlog::logger>("troupe", std::make_shared<spdlog::sinks::stderr_sink_mt>());
    made->set_pattern("%H:%M:%S.%e %L %v");
    made->flush_on(spdlog::level::info);
    return made;
  }();
  return *instance;
}

spdlog::level::level_enum spd_level(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug: return spdlog::level::debug;
    case LogLevel::kInfo: return spdlog::level::info;
    case LogLevel::kWarning: return spdlog::level::warn;
    case LogLevel::kError: return spdlog::level::err;
  }
  return spdlog::level::err;
}

}  // namespace

void log(LogLevel level, std::string_view text) { logger().log(spd_level(level), "{}", text); }
void set_log_level(LogLevel lowest) { logger().set_level(spd_level(lowest)); }

}  // namespace troupe
