// JSON from clients: what is taken in is written out again as what it was.
#include "tests/fuzz/fuzz_target.h"
#include "ws/json/json_value.h"
#include "ws/json/json_writer.h"

namespace ringside {
namespace {

void Write(const JsonValue& value, JsonWriter& out) {
  switch (value.kind()) {
    case JsonValue::Kind::kNull:
      out.Null();
      return;
    case JsonValue::Kind::kBool:
      out.Value(value.boolean());
      return;
    case JsonValue::Kind::kInteger:
      out.Value(value.integer());
      return;
    case JsonValue::Kind::kNumber:
      out.Value(value.number() + 0.0);  // -0.0 is written as an integer, which has no sign
      return;
    case JsonValue::Kind::kString:
      out.Value(value.string());
      return;
    case JsonValue::Kind::kArray:
      out.BeginArray();
      for (const JsonValue& element : value.array()) Write(element, out);
      out.EndArray();
      return;
    case JsonValue::Kind::kObject:
      out.BeginObject();
      for (const auto& [key, member] : value.object()) {
        out.Key(key);
        Write(member, out);
      }
      out.EndObject();
      return;
  }
}

std::string Text(const JsonValue& value) {
  JsonWriter out;
  Write(value, out);
  return out.Take();
}

}  // namespace

std::vector<std::string> Seeds() {
  return {
      R"({"type":"response.create","input":[{"role":"user","content":"\u00e9\ud83d\ude00 \"x\"\n"}],"seed":18446744073709551615})",
      R"([1, -2, 3.5e-7, 1e308, -0.0, 9223372036854775807, true, false, null, {}, [], ""])",
      std::string(60, '[') + std::string(60, ']'), R"({"a":{"a":{"a":[{"a":1,"a":2}]}}})"};
}

}  // namespace ringside

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ringside;
  const Result<JsonValue> value = ParseJson({reinterpret_cast<const char*>(data), size});
  if (!value.ok()) {
    Require(value.status().code() == StatusCode::kInvalidArgument, value.status().ToString());
    return 0;
  }
  const std::string text = Text(*value);
  const Result<JsonValue> again = ParseJson(text);
  Require(again.ok() && Text(*again) == text, "what was read can be written and read: " + text);
  return 0;
}
