// JSON as it goes out: text written from front to back, without a tree in between. Commas are its business, nesting is
// the caller's. Strings must be UTF-8; bytes that are not become U+FFFD, so that a frame is valid whatever happened.
#pragma once

#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>

namespace ringside {

/// Appends `text` as the inside of a JSON string.
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
  /// The shortest text that reads back as the same double; null for NaN and infinities, which JSON lacks.
  JsonWriter& Value(double value);
  JsonWriter& Null() { return Raw("null"); }
  /// Text that is JSON already: one value, or (after BeginObject) members without a comma around them.
  JsonWriter& Raw(std::string_view json);

  template <class T>
  JsonWriter& Field(std::string_view key, const T& value) {
    return Key(key).Value(value);
  }
  /// The text if there is any, else null.
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
