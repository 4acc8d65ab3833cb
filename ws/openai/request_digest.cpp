#include "ws/openai/request_digest.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>
#include <vector>

#include "session/ids.h"
#include "ws/json/json_writer.h"

namespace ringside {
namespace {

constexpr std::array<std::string_view, 5> kNotAsked = {"type", "event_id", "stream_id", "stream", "stream_options"};
constexpr double kExactIntegers = 1LL << 53;  // up to here every integer is a double

void Write(JsonWriter& json, const JsonValue& value);

void WriteNumber(JsonWriter& json, double number) {
  const bool integer = number == std::floor(number) && std::abs(number) <= kExactIntegers;
  integer ? json.Value(static_cast<int64_t>(number)) : json.Value(number);
}

template <class Wanted>
void WriteMembers(JsonWriter& json, const JsonValue& object, const Wanted& wanted) {
  std::vector<const JsonValue::Member*> members;
  for (const JsonValue::Member& member : object.object()) {
    if (!member.second.is_null() && wanted(member.first)) members.push_back(&member);
  }
  std::sort(members.begin(), members.end(), [](const auto* a, const auto* b) { return a->first < b->first; });
  json.BeginObject();
  for (const JsonValue::Member* member : members) Write(json.Key(member->first), member->second);
  json.EndObject();
}

void Write(JsonWriter& json, const JsonValue& value) {
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
      WriteNumber(json, value.number());
      return;
    case JsonValue::Kind::kString:
      json.Value(value.string());
      return;
    case JsonValue::Kind::kArray:
      json.BeginArray();
      for (const JsonValue& element : value.array()) Write(json, element);
      json.EndArray();
      return;
    case JsonValue::Kind::kObject:
      WriteMembers(json, value, [](std::string_view) { return true; });
      return;
  }
}

}  // namespace

std::string RequestDigest(const JsonValue& body) {
  JsonWriter json;
  WriteMembers(json, body, [](std::string_view key) {
    return std::find(kNotAsked.begin(), kNotAsked.end(), key) == kNotAsked.end();
  });
  return HashedId("request_", json.text());
}

}  // namespace ringside
