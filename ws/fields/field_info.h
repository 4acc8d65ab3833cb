// Request fields as documents and tests see them, and the kinds of requests that a server accepts. Plain values.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ringside {

/// JSON types that a field takes, as a set of bits.
enum class FieldType : uint8_t {
  kBool = 1,
  kInteger = 2,
  kNumber = 4,
  kString = 8,
  kArray = 16,
  kObject = 32,
  kAny = 63,
};
constexpr FieldType operator|(FieldType a, FieldType b) {
  return static_cast<FieldType>(static_cast<uint8_t>(a) | static_cast<uint8_t>(b));
}
constexpr bool Takes(FieldType types, FieldType type) {
  return (static_cast<uint8_t>(types) & static_cast<uint8_t>(type)) != 0;
}

/// Handling of a field's value. Null means absent under every policy.
enum class FieldPolicy : uint8_t {
  kRead,     // read; a wrong type or a value beyond the limits is an error
  kClamp,    // as kRead; a value above the server's limit becomes that limit and is reported
  kLenient,  // as kRead, but an invalid value is ignored and reported
  kHint,     // ignored, and reported unless its value has no effect
  kSilent,   // ignored without a report: it cannot change the answer
  kRefuse,   // an error unless it is empty: ignoring it would change the meaning of the request
};

struct FieldInfo {
  std::string name;  // members include their object: "stream_options.include_usage"
  FieldType type = FieldType::kAny;
  FieldPolicy policy = FieldPolicy::kRead;
  std::string limits = "";    // "1 to 128"; "" = none, or limits that depend on the model
  std::string alias_of = "";  // another name of this field; "" = none
};

/// A kind of request: an HTTP method with its path, or a client event of a WebSocket.
struct RequestKind {
  std::string name;
  std::vector<FieldInfo> fields;
};

/// "integer", "string or array"; "any" for every type.
std::string FieldTypeName(FieldType type);
/// "read", "clamp", ...
std::string_view FieldPolicyName(FieldPolicy policy);
/// "1 to 128", "at least 1"; "" where every integer is allowed.
std::string RangeText(int64_t low, int64_t high);

}  // namespace ringside
