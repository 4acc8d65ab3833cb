// JSON input: parsed once into a tree, with the limits of a request (base/json/json_reader.h). The last value of a
// repeated key counts. Read-only after parsing.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/status.h"

namespace ringside {

class JsonValue {
 public:
  enum class Kind { kNull, kBool, kInteger, kNumber, kString, kArray, kObject };
  using Member = std::pair<std::string, JsonValue>;

  JsonValue() = default;
  /// A string.
  explicit JsonValue(std::string text) : value_(std::move(text)) {}

  Kind kind() const { return static_cast<Kind>(value_.index()); }
  bool is_null() const { return kind() == Kind::kNull; }
  bool is_bool() const { return kind() == Kind::kBool; }
  bool is_integer() const { return kind() == Kind::kInteger; }
  bool is_number() const { return is_integer() || kind() == Kind::kNumber; }
  bool is_string() const { return kind() == Kind::kString; }
  bool is_array() const { return kind() == Kind::kArray; }
  bool is_object() const { return kind() == Kind::kObject; }
  /// "null", "a boolean", "an integer", ... for error messages.
  const char* KindName() const;

  // The default for a value of another kind: false, 0, or empty.
  bool boolean() const { return Get<bool>(); }
  /// An integer outside int64 has kind kNumber.
  int64_t integer() const { return Get<int64_t>(); }
  double number() const { return is_integer() ? static_cast<double>(integer()) : Get<double>(); }
  const std::string& string() const { return Get<std::string>(); }
  const std::vector<JsonValue>& array() const { return Get<std::vector<JsonValue>>(); }
  const std::vector<Member>& object() const { return Get<std::vector<Member>>(); }
  /// Finds a member of an object that is present and not null; nullptr otherwise.
  const JsonValue* Find(std::string_view key) const;

 private:
  friend class JsonBuilder;

  template <class T>
  const T& Get() const {
    static const T none{};
    const T* held = std::get_if<T>(&value_);
    return held != nullptr ? *held : none;
  }

  // Alternatives in the order of Kind.
  std::variant<std::monostate, bool, int64_t, double, std::string, std::vector<JsonValue>, std::vector<Member>> value_;
};

/// ERRORS: kInvalidArgument (invalid_json) with the fault and its position.
Result<JsonValue> ParseJson(std::string_view text);

}  // namespace ringside
