// What a message is: any C++ struct that can be moved without throwing. It is never copied and never
// serialized; one allocation holds it and what the mailbox needs.
//
// Threads: any. Errors: a type that cannot be a message does not compile; more than Probe::kMaxType types in
// a program is a bug. Type numbers are dense and local to the process: never send one to another.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <new>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

namespace troupe::actor {

class Actor;

template <class T>
concept Message =
    std::is_object_v<T> && !std::is_pointer_v<T> && !std::is_array_v<T> && !std::is_const_v<T> &&
    std::is_nothrow_move_constructible_v<T> && std::is_nothrow_destructible_v<T>;

namespace detail {

// "ns::Foo<other::Bar>" -> "Foo<Bar>": at each level, what stands before the last "::" goes.
template <std::size_t N>
struct BareName {
  std::array<char, N> text{};
  std::size_t size = 0;

  constexpr explicit BareName(std::string_view full) {
    std::array<std::size_t, 64> starts{};  // where the component of each open bracket starts
    std::size_t depth = 0;
    for (std::size_t i = 0; i < full.size(); ++i) {
      const char c = full[i];
      if (c == ':' && i + 1 < full.size() && full[i + 1] == ':') {
        size = starts[depth];
        ++i;
        continue;
      }
      if ((c == '>' || c == ')') && depth > 0) --depth;
      text[size++] = c;
      if ((c == '<' || c == '(') && depth + 1 < starts.size()) starts[++depth] = size;
      if (c == ',' || c == ' ') starts[depth] = size;
    }
  }
  constexpr std::string_view view() const { return {text.data(), size}; }
};

template <class T>
constexpr std::string_view full_type_name() {
  const std::string_view pretty =
      __PRETTY_FUNCTION__;  // "... [with T = ns::Foo; ...]" or "... [T = ns::Foo]"
  const std::size_t begin = pretty.find("T = ") + 4;
  const std::size_t semicolon = pretty.find(';', begin);
  const std::size_t end = semicolon != std::string_view::npos ? semicolon : pretty.rfind(']');
  return pretty.substr(begin, end - begin);
}

template <class T>
inline constexpr BareName<full_type_name<T>().size()> kBareName{full_type_name<T>()};

}  // namespace detail

// The name of a message type, without namespaces.
template <class T>
constexpr std::string_view message_name() {
  return detail::kBareName<T>.view();
}

struct MessageType {
  std::uint32_t index = 0;
  std::string_view name;
  std::size_t size = 0, align = 0;
  void (*destroy)(void* payload) noexcept = nullptr;
  void (*arrive)(Actor& receiver, void* payload) = nullptr;  // before its handler, where the type needs that
};

// Gives the type its number and keeps its name for the process's life.
MessageType register_message_type(MessageType type);
// For readers of probes.
std::string message_type_name(std::uint32_t index);

// A type may be shown under another name: specialize (edges show the type they carry).
template <class T>
struct ShownAs {
  static constexpr std::string_view name() { return message_name<T>(); }
};

// A type may have something to do when it reaches its receiver: specialize (requests are noted there).
template <class T>
struct OnArrival {
  static constexpr void (*kHook)(Actor&, void*) = nullptr;
};

template <Message T>
const MessageType& message_type() {
  static const MessageType type =
      register_message_type({.index = 0,
                             .name = ShownAs<T>::name(),
                             .size = sizeof(T),
                             .align = alignof(T),
                             .destroy = [](void* payload) noexcept { static_cast<T*>(payload)->~T(); },
                             .arrive = OnArrival<T>::kHook});
  return type;
}

}  // namespace troupe::actor
