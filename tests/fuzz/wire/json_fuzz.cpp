// JSON from clients: accepted input is written unchanged.
#include "tests/fuzz/fuzz_target.h"
#include "ws/json/json_text.h"
#include "ws/json/json_value.h"
#include "ws/json/json_writer.h"

namespace ringside {
namespace {

std::string Text(const JsonValue& value, JsonForm form) {
  JsonWriter out;
  WriteJson(out, value, form);
  return out.Take();
}

}  // namespace

std::vector<std::string> Seeds() {
  return {
      R"({"type":"response.create","input":[{"role":"user","content":"\u00e9\ud83d\ude00 \"x\"\n"}],"seed":18446744073709551615})",
      R"([1, -2, 3.5e-7, 1e308, -0.0, 9223372036854775807, true, false, null, {}, [], ""])",
      std::string(60, '[') + std::string(60, ']'), R"({"b":{"a":{"a":[{"a":1,"a":2}]}},"a":1.0})"};
}

}  // namespace ringside

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ringside;
  const Result<JsonValue> value = ParseJson({reinterpret_cast<const char*>(data), size});
  if (!value.ok()) {
    Require(value.status().code() == StatusCode::kInvalidArgument, value.status().ToString());
    return 0;
  }
  for (const JsonForm form : {JsonForm::kAsRead, JsonForm::kCanonical}) {
    const std::string text = Text(*value, form);
    const Result<JsonValue> again = ParseJson(text);
    Require(again.ok() && Text(*again, form) == text, "what was read can be written and read: " + text);
  }
  return 0;
}
