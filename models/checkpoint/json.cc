#include "models/checkpoint/json.h"

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace troupe::checkpoint {
namespace {

using nlohmann::json;

constexpr std::size_t kDepthMax = 16;

// Builds the value; stops at the first fault.
class Builder : public nlohmann::json_sax<json> {
 public:
  bool null() override { return put(nullptr); }
  bool boolean(bool value) override { return put(value); }
  bool number_integer(number_integer_t value) override { return put(value); }
  bool number_unsigned(number_unsigned_t value) override { return put(value); }
  bool number_float(number_float_t value, const string_t&) override { return put(value); }
  bool string(string_t& value) override { return put(std::move(value)); }
  bool binary(binary_t&) override { return fail("binary value"); }
  bool start_object(std::size_t) override { return open(json::object()); }
  bool start_array(std::size_t) override { return open(json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }

  bool key(string_t& value) override {
    if (open_.back()->contains(value)) return fail(absl::StrCat("key ", in_quotes(value), " appears twice"));
    key_ = std::move(value);
    return true;
  }

  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception& error) override {
    std::string what = error.what();
    // the library's own code stands in brackets before the text
    if (const std::size_t end = what.find("] "); end != std::string::npos) what.erase(0, end + 2);
    return fail(what);
  }

  json root;
  std::string fault;

 private:
  json* add(json value) {
    if (open_.empty()) {
      root = std::move(value);
      return &root;
    }
    json& parent = *open_.back();
    if (parent.is_array()) {
      parent.push_back(std::move(value));
      return &parent.back();
    }
    return &(parent[key_] = std::move(value));
  }
  bool put(json value) {
    add(std::move(value));
    return true;
  }
  bool open(json value) {
    if (open_.size() == kDepthMax) return fail(absl::StrCat("nested deeper than ", kDepthMax));
    open_.push_back(add(std::move(value)));
    return true;
  }
  bool close() {
    open_.pop_back();
    return true;
  }
  bool fail(std::string what) {
    fault = std::move(what);
    return false;
  }

  std::vector<json*> open_;
  std::string key_;
};

}  // namespace

bool is_utf8(std::string_view text) {
  for (std::size_t i = 0; i < text.size();) {
    const auto byte = [&](std::size_t at) { return static_cast<unsigned char>(text[at]); };
    const unsigned lead = byte(i);
    const std::size_t length = lead < 0x80                   ? 1
                               : lead >= 0xf0 && lead < 0xf5 ? 4
                               : lead >= 0xe0                ? 3
                               : lead >= 0xc2                ? 2
                                                             : 0;
    if (length == 0 || lead >= 0xf5 || length > text.size() - i) return false;
    unsigned point = length == 1 ? lead : lead & (0xffu >> (length + 1));
    for (std::size_t k = 1; k < length; ++k) {
      if ((byte(i + k) & 0xc0u) != 0x80u) return false;
      point = (point << 6) | (byte(i + k) & 0x3fu);
    }
    // longer than needed, a surrogate, or beyond Unicode
    if ((length == 3 && point < 0x800) || (length == 4 && point < 0x10000)) return false;
    if ((point >= 0xd800 && point < 0xe000) || point > 0x10ffff) return false;
    i += length;
  }
  return true;
}

StatusOr<json> parse_json(std::string_view text) {
  Builder builder;
  if (!json::sax_parse(text.begin(), text.end(), &builder)) return absl::InvalidArgumentError(builder.fault);
  return std::move(builder.root);
}

StatusOr<std::string> dump_json(const json& value, int indent) {
  try {
    return value.dump(indent);
  } catch (const json::type_error&) {
    return absl::InvalidArgumentError("a string is not UTF-8");
  }
}

std::string in_quotes(const std::string& text) {
  return json(text).dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace troupe::checkpoint
