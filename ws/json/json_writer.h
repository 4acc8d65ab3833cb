// JSON output, written front to back without a tree. The writer handles commas, the caller nesting. Invalid UTF-8 in
// strings becomes U+FFFD, so that every frame is valid.
#pragma once

#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>

namespace ringside {

/// Appends `text`, escaped for the inside of a JSON string.
void AppendJsonEscaped(std::string& out, std::string_view text);
std::string JsonEscaped(std::string_view text);

class JsonWriter {
 public:
  JsonWriter& BeginObject() { return Open('{'); }
  JsonWriter& EndObject() { return Shut('}'); }
  JsonWriter& BeginArray() { return Open('['); }
  JsonWriter& EndArray() { return Shut(']'); }
  JsonWriter& Key(std::string_view key);

  JsonWriter& Value(std::string_view text);
  JsonWriter& Value(const std::string& text) { return Value(std::string_view(text)); }
  JsonWriter& Value(const char* text) { return Value(std::string_view(text)); }
  template <std::same_as<bool> Bool>
  JsonWriter& Value(Bool value) {
    return Raw(value ? "true" : "false");
  }
  template <std::integral Integer>
  requires(!std::same_as<Integer, bool>) JsonWriter& Value(Integer value) { return Raw(std::to_string(value)); }
  /// The shortest decimal that parses to the same double; null for NaN and infinities.
  JsonWriter& Value(double value);
  JsonWriter& Null() { return Raw("null"); }
  /// Inserts serialized JSON: one value, or (after BeginObject) members without a leading or trailing comma.
  JsonWriter& Raw(std::string_view json);

  template <class T>
  JsonWriter& Field(std::string_view key, const T& value) {
    return Key(key).Value(value);
  }
  /// The text, or null if it is empty.
  JsonWriter& TextOrNull(std::string_view key, std::string_view text) {
    Key(key);
    return text.empty() ? Null() : Value(text);
  }

  const std::string& text() const { return out_; }
  std::string Take() { return std::move(out_); }

 private:
  JsonWriter& Open(char bracket);
  JsonWriter& Shut(char bracket);
  void Separate();

  std::string out_;
  bool first_ = true;  // no comma before the next value
};

}  // namespace ringside
