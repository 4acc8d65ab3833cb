// JSON as it comes in from outside: parsed once, with a cap on depth, into a plain tree. Refused: bad UTF-8, lone
// surrogates, nesting beyond the cap, numbers that no double can hold, anything behind the value. Of a repeated key the
// last value counts. A value is read-only after parsing.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"

namespace ringside {

class JsonValue {
 public:
  enum class Kind { kNull, kBool, kInteger, kNumber, kString, kArray, kObject };
  using Member = std::pair<std::string, JsonValue>;

  Kind kind() const { return kind_; }
  bool is_null() const { return kind_ == Kind::kNull; }
  bool is_bool() const { return kind_ == Kind::kBool; }
  bool is_integer() const { return kind_ == Kind::kInteger; }
  bool is_number() const { return kind_ == Kind::kInteger || kind_ == Kind::kNumber; }
  bool is_string() const { return kind_ == Kind::kString; }
  bool is_array() const { return kind_ == Kind::kArray; }
  bool is_object() const { return kind_ == Kind::kObject; }
  /// "null", "a boolean", "an integer", ... for error messages.
  const char* KindName() const;

  bool boolean() const { return integer_ != 0; }
  /// Only of an integer. One beyond the range of int64 is a kNumber.
  int64_t integer() const { return integer_; }
  double number() const { return kind_ == Kind::kInteger ? static_cast<double>(integer_) : number_; }
  const std::string& string() const { return string_; }
  const std::vector<JsonValue>& array() const { return array_; }
  const std::vector<Member>& object() const { return object_; }
  /// A member of an object that is there and not null; nullptr otherwise.
  const JsonValue* Find(std::string_view key) const;

 private:
  friend class JsonBuilder;
  Kind kind_ = Kind::kNull;
  int64_t integer_ = 0;
  double number_ = 0;
  std::string string_;
  std::vector<JsonValue> array_;
  std::vector<Member> object_;
};

/// kInvalidArgument (invalid_json) with what is wrong and where.
Result<JsonValue> ParseJson(std::string_view text);

}  // namespace ringside
