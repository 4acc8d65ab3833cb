#include "ws/content/request_digest.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "session/ids.h"
#include "ws/json/json_text.h"

namespace ringside {
namespace {

constexpr std::array<std::string_view, 5> kNotAsked = {"type", "event_id", "stream_id", "stream", "stream_options"};

}  // namespace

std::string RequestDigest(const JsonValue& body) {
  JsonWriter json;
  json.BeginObject();
  for (const JsonValue::Member* member : CanonicalMembers(body)) {
    if (std::find(kNotAsked.begin(), kNotAsked.end(), member->first) != kNotAsked.end()) continue;
    WriteJson(json.Key(member->first), member->second, JsonForm::kCanonical);
  }
  json.EndObject();
  return HashedId("request_", json.text());
}

}  // namespace ringside
