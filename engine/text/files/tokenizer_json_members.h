// Accessors and errors for a tokenizer.json. Templates over the JSON library's value type, so that no header includes
// the library.
#pragma once

#include <string>

#include "base/status.h"

namespace ringside::tokenizer_json {

inline Status Unsupported(const std::string& what) {
  return InvalidArgument("tokenizer.json: " + what + " is not supported");
}
inline Status Malformed(const std::string& what) { return InvalidArgument("tokenizer.json: " + what); }

/// Null if `object` is not an object, or its member is absent or null.
template <typename Json>
const Json* Member(const Json& object, const char* key) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(key);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

/// "" if the member is not a string.
template <typename Json>
std::string StringMember(const Json& object, const char* key) {
  const Json* member = Member(object, key);
  return member != nullptr && member->is_string() ? member->template get<std::string>() : "";
}

/// `otherwise` if the member is not a boolean.
template <typename Json>
bool BoolMember(const Json& object, const char* key, bool otherwise) {
  const Json* member = Member(object, key);
  return member != nullptr && member->is_boolean() ? member->template get<bool>() : otherwise;
}

}  // namespace ringside::tokenizer_json
