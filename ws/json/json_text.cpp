#include "ws/json/json_text.h"

#include <algorithm>
#include <cmath>

namespace ringside {
namespace {

constexpr double kExactIntegers = 1LL << 53;  // all integers up to here are exact doubles

void WriteNumber(JsonWriter& json, double number, JsonForm form) {
  const bool integer = number == std::floor(number) && std::abs(number) <= kExactIntegers;
  integer&& form == JsonForm::kCanonical ? json.Value(static_cast<int64_t>(number)) : json.Value(number);
}

void WriteObject(JsonWriter& json, const JsonValue& object, JsonForm form) {
  json.BeginObject();
  if (form == JsonForm::kCanonical) {
    for (const JsonValue::Member* member : CanonicalMembers(object))
      WriteJson(json.Key(member->first), member->second, form);
  } else {
    for (const auto& [key, member] : object.object()) WriteJson(json.Key(key), member, form);
  }
  json.EndObject();
}

}  // namespace

void WriteJson(JsonWriter& json, const JsonValue& value, JsonForm form) {
  switch (value.kind()) {
    case JsonValue::Kind::kNull:
      json.Null();
      return;
    case JsonValue::Kind::kBool:
      json.Value(value.boolean());
      return;
    case JsonValue::Kind::kInteger:
      json.Value(value.integer());
      return;
    case JsonValue::Kind::kNumber:
      WriteNumber(json, value.number(), form);
      return;
    case JsonValue::Kind::kString:
      json.Value(value.string());
      return;
    case JsonValue::Kind::kArray:
      json.BeginArray();
      for (const JsonValue& element : value.array()) WriteJson(json, element, form);
      json.EndArray();
      return;
    case JsonValue::Kind::kObject:
      WriteObject(json, value, form);
      return;
  }
}

std::string SpacedJson(const JsonValue& value) {
  std::string out;
  const auto quote = [&](const std::string& text) {
    out += '"';
    AppendJsonEscaped(out, text);
    out += '"';
  };
  const bool array = value.is_array();
  if (!array && !value.is_object()) {
    JsonWriter json;
    WriteJson(json, value);
    out = json.Take();
    // Python distinguishes 2.0 from 2.
    if (value.kind() == JsonValue::Kind::kNumber && out.find_first_not_of("-0123456789") == std::string::npos) {
      out += ".0";
    }
    return out;
  }
  out = array ? "[" : "{";
  for (const JsonValue& element : value.array()) {
    if (out.size() > 1) out += ", ";
    out += SpacedJson(element);
  }
  for (const auto& [key, member] : value.object()) {
    if (out.size() > 1) out += ", ";
    quote(key);
    out += ": " + SpacedJson(member);
  }
  return out += array ? ']' : '}';
}

std::vector<const JsonValue::Member*> CanonicalMembers(const JsonValue& object) {
  std::vector<const JsonValue::Member*> members;
  for (const JsonValue::Member& member : object.object()) {
    if (!member.second.is_null()) members.push_back(&member);
  }
  std::sort(members.begin(), members.end(), [](const auto* a, const auto* b) { return a->first < b->first; });
  return members;
}

}  // namespace ringside
