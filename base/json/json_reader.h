// Reads JSON from outside, front to back, with limits on size, depth, the number of values and repeated names. The only
// JSON parser of the server and its clients: trees (json_tree.h) and other forms are built by handlers. Rejects invalid
// UTF-8, lone surrogates, numbers beyond the range of double, and trailing data. Pure functions.
// THREAD: any.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/limits.h"

namespace ringside {

struct JsonLimits {
  int64_t bytes = limits::kMaxJsonBytes;
  int64_t depth = limits::kMaxJsonDepth;    // open arrays and objects
  int64_t values = limits::kMaxJsonValues;  // arrays and objects included
  bool unique_names = false;                // an object may not repeat a name
};

/// Limits of a model's files, data sets and answers of a server.
inline constexpr JsonLimits kLargeJson{
    .bytes = limits::kMaxJsonBytes, .depth = limits::kMaxJsonDepth, .values = limits::kMaxLargeJsonValues};

/// Receives a text's values in order. Each function returns false to stop the reader. Strings may be moved from.
class JsonHandler {
 public:
  virtual ~JsonHandler() = default;
  virtual bool Null() = 0;
  virtual bool Boolean(bool value) = 0;
  virtual bool Negative(int64_t value) = 0;  // an integer below 0
  virtual bool Unsigned(uint64_t value) = 0;
  /// A number with a fraction or an exponent, or an integer beyond 64 bits; `text` as written. Finite.
  virtual bool Number(double value, const std::string& text) = 0;
  virtual bool String(std::string& value) = 0;
  virtual bool OpenObject() = 0;
  virtual bool Name(std::string& name) = 0;  // of the object's next value
  virtual bool CloseObject() = 0;
  virtual bool OpenArray() = 0;
  virtual bool CloseArray() = 0;
};

struct JsonFault {
  enum class Kind : uint8_t { kNone, kSyntax, kBytes, kDepth, kValues, kRepeatedName, kStopped };
  Kind kind = Kind::kNone;  // kStopped: by the handler
  std::string message;      // "nested deeper than 64 levels"; printable, at most 200 bytes; empty for kStopped
  bool ok() const { return kind == Kind::kNone; }
};

/// Stops at the first fault: the handler has then received a part of the text. Nesting uses the heap, not the stack.
JsonFault ReadJson(std::string_view text, const JsonLimits& limits, JsonHandler& handler);

}  // namespace ringside
