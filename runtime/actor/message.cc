#include "runtime/actor/message.h"

#include <mutex>
#include <vector>

#include "runtime/base/check.h"
#include "runtime/trace/probe.h"

namespace troupe::actor {
namespace {

// A table of facts about the program's types, filled once per type; no state of any actor system.
struct TypeNames {
  std::mutex mutex;
  std::vector<std::string> names;
};
TypeNames& type_names() {
  static auto* names = new TypeNames;  // outlives every last word
  return *names;
}

}  // namespace

MessageType register_message_type(MessageType type) {
  auto& table = type_names();
  std::lock_guard lock(table.mutex);
  type.index = static_cast<std::uint32_t>(table.names.size());
  TROUPE_CHECK(type.index < trace::Probe::kMaxType) << "too many message types, at '" << type.name << "'";
  table.names.emplace_back(type.name);
  return type;
}

std::string message_type_name(std::uint32_t index) {
  auto& table = type_names();
  std::lock_guard lock(table.mutex);
  return index < table.names.size() ? table.names[index] : "?";
}

}  // namespace troupe::actor
