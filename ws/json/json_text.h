// Serializes parsed JSON values. Pure functions.
// THREAD: any.
#pragma once

#include <string>
#include <vector>

#include "ws/json/json_value.h"
#include "ws/json/json_writer.h"

namespace ringside {

enum class JsonForm {
  kAsRead,     // members in input order
  kCanonical,  // equal text for equal values: members sorted by name, nulls left out, 2 for 2.0
};

void WriteJson(JsonWriter& json, const JsonValue& value, JsonForm form = JsonForm::kAsRead);

/// As Python's json.dumps, and therefore chat templates, write it: a space after each comma and colon, members in input
/// order.
std::string SpacedJson(const JsonValue& value);

/// The members that an object's canonical form contains, in its order.
std::vector<const JsonValue::Member*> CanonicalMembers(const JsonValue& object);

}  // namespace ringside
