// A parsed JSON value as text again. Pure functions; any thread.
#pragma once

#include <string>
#include <vector>

#include "ws/json/json_value.h"
#include "ws/json/json_writer.h"

namespace ringside {

enum class JsonForm {
  kAsRead,     // members in the order in which they were read
  kCanonical,  // the same text for the same value: members sorted by name, none that is null, 2 for 2.0
};

void WriteJson(JsonWriter& json, const JsonValue& value, JsonForm form = JsonForm::kAsRead);

/// As Python's json.dumps writes it, and so chat templates: a blank behind each comma and colon, in the order read.
std::string SpacedJson(const JsonValue& value);

/// The members of an object that its canonical form has, in its order.
std::vector<const JsonValue::Member*> CanonicalMembers(const JsonValue& object);

}  // namespace ringside
