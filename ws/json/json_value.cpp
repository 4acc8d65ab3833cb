#include "ws/json/json_value.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "base/limits.h"

namespace ringside {

const char* JsonValue::KindName() const {
  switch (kind()) {
    case Kind::kNull:
      return "null";
    case Kind::kBool:
      return "a boolean";
    case Kind::kInteger:
      return "an integer";
    case Kind::kNumber:
      return "a number";
    case Kind::kString:
      return "a string";
    case Kind::kArray:
      return "an array";
    case Kind::kObject:
      return "an object";
  }
  return "?";
}

const JsonValue* JsonValue::Find(std::string_view key) const {
  for (const Member& member : object()) {
    if (member.first == key) return member.second.is_null() ? nullptr : &member.second;
  }
  return nullptr;
}

// SAX handler. The parser keeps its stack on the heap, so that deep nesting cannot overflow ours before the limit
// applies.
class JsonBuilder final : public nlohmann::json_sax<nlohmann::json> {
 public:
  JsonValue& root() { return root_; }
  std::string& error() { return error_; }

  bool null() override { return Place() != nullptr; }
  bool boolean(bool value) override { return Set(value); }
  bool number_integer(number_integer_t value) override { return Set(int64_t{value}); }
  bool number_unsigned(number_unsigned_t value) override {
    if (value > static_cast<uint64_t>(INT64_MAX)) return Set(static_cast<double>(value));
    return Set(static_cast<int64_t>(value));
  }
  bool number_float(number_float_t value, const string_t&) override {
    if (!std::isfinite(value)) return Fail("a number is out of range");
    return Set(value);
  }
  bool string(string_t& value) override { return Set(std::move(value)); }
  bool binary(binary_t&) override { return Fail("binary data"); }
  bool start_object(size_t) override { return Open(Members()); }
  bool start_array(size_t) override { return Open(Values()); }
  bool end_array() override { return Close(); }
  bool end_object() override { return Close(); }
  bool key(string_t& value) override {
    // Members keep the client's order; a repeated key is searched among this object's members only.
    Level& level = open_.back();
    Members& members = std::get<Members>(level.value->value_);
    const auto [at, fresh] = level.keys.emplace(value, members.size());
    level.member = at->second;
    if (fresh) {
      members.emplace_back(std::move(value), JsonValue());
    } else {
      members[level.member].second = JsonValue();
    }
    return true;
  }
  bool parse_error(size_t position, const std::string&, const nlohmann::detail::exception& exception) override {
    // In "[json.exception.parse_error.101] parse error at line 1, column 2: syntax error ..." the last part is the
    // message.
    const std::string what = exception.what();
    const size_t colon = what.find(": ");
    return Fail("at byte " + std::to_string(position) + ": " +
                (colon == std::string::npos ? "not JSON" : what.substr(colon + 2)));
  }

 private:
  using Values = std::vector<JsonValue>;
  using Members = std::vector<JsonValue::Member>;
  struct Level {
    JsonValue* value;
    size_t member = 0;
    std::unordered_map<std::string, size_t> keys;
  };

  bool Fail(std::string what) {
    if (error_.empty()) error_ = std::move(what);
    return false;
  }
  // Returns the place of the next value; nullptr above the limit.
  JsonValue* Place() {
    if (++values_ > limits::kMaxJsonValues) {
      Fail("more than " + std::to_string(limits::kMaxJsonValues) + " values");
      return nullptr;
    }
    if (open_.empty()) return &root_;
    Level& level = open_.back();
    if (level.value->is_object()) return &std::get<Members>(level.value->value_)[level.member].second;
    return &std::get<Values>(level.value->value_).emplace_back();
  }
  template <class T>
  bool Set(T value) {
    JsonValue* place = Place();
    if (place != nullptr) place->value_ = std::move(value);
    return place != nullptr;
  }
  template <class T>
  bool Open(T empty) {
    if (open_.size() >= static_cast<size_t>(limits::kMaxJsonDepth)) {
      return Fail("nested deeper than " + std::to_string(limits::kMaxJsonDepth) + " levels");
    }
    JsonValue* place = Place();
    if (place == nullptr) return false;
    place->value_ = std::move(empty);
    open_.push_back({place, 0, {}});
    return true;
  }
  bool Close() {
    open_.pop_back();
    return true;
  }

  JsonValue root_;
  int64_t values_ = 0;
  std::vector<Level> open_;  // pointers into parents stay valid: only the innermost container grows
  std::string error_;
};

Result<JsonValue> ParseJson(std::string_view text) {
  JsonBuilder builder;
  try {
    if (nlohmann::json::sax_parse(text.begin(), text.end(), &builder)) return std::move(builder.root());
  } catch (const nlohmann::json::exception& exception) {
    builder.error() = exception.what();
  }
  // The parser quotes its input: makes the message printable.
  std::string message = builder.error().substr(0, 200);
  for (char& c : message) {
    if (static_cast<unsigned char>(c) < 0x20 || static_cast<unsigned char>(c) > 0x7e) c = '?';
  }
  return InvalidArgument("The message is not valid JSON: " + message, "", "invalid_json");
}

}  // namespace ringside
