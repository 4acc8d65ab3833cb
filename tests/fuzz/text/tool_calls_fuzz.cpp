// Tool calls in the text of an answer. Input: the place and the syntax, and the text's pieces. The result does not
// depend on the split; text and calls together are the whole text; parsed calls can be written again; and transcoded
// arguments are valid JSON.
#include <memory>
#include <nlohmann/json.hpp>

#include "engine/text/unicode.h"
#include "session/tools/tool_calls.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/session/tools/call_cases.h"

namespace ringside {
namespace {

struct Told {
  std::string text, shown;
  std::vector<ToolCall> calls;
  int64_t calls_at = -1;
};

Told Read(CallPlace place, ToolSyntaxName syntax, const std::vector<std::string_view>& pieces) {
  static const auto types = std::make_shared<ParameterTypes>(kCaseTools);
  ToolCallReader reader(place, syntax, types);
  Told told;
  std::string all;
  const auto note = [&](const std::vector<CallPart>& parts) {
    for (const CallPart& part : parts) {
      Require(part.begin <= part.end && part.end <= all.size(), "a part lies in the text");
      const std::string bytes = all.substr(part.begin, part.end - part.begin);
      if (part.kind == CallPart::Kind::kText) {
        Require(told.calls.empty() && part.begin == told.text.size(),
                "the text stands before the calls, without a gap");
        told.text += bytes;
        continue;
      }
      if (part.kind == CallPart::Kind::kCall) {
        Require(told.calls.empty() || told.calls.back().complete, "a call ends before the next");
        told.calls.push_back({bytes, "", false});
      }
      Require(!told.calls.empty(), "a call begins before its arguments");
      if (part.kind == CallPart::Kind::kArguments) told.calls.back().arguments += bytes;
      if (part.kind == CallPart::Kind::kCallEnd) told.calls.back().complete = true;
    }
  };
  for (const std::string_view piece : pieces) {
    note(reader.Push(piece, &all));
  }
  note(reader.Finish());
  told.calls_at = reader.calls_at();
  told.shown = all;
  for (const ToolCall& call : told.calls) {
    const bool text = ToValidUtf8(call.arguments) == call.arguments;  // like all text of answers
    const bool json = !SyntaxOf(syntax).has_json() && call.complete && text;
    Require(!json || nlohmann::json::accept(call.arguments), "arguments are JSON");
  }
  if (told.calls_at < 0) {
    Require(told.calls.empty() && told.text == all, "without calls all is text");
  } else {
    Require(told.text.size() == static_cast<size_t>(told.calls_at), "the calls begin where the text ends");
  }
  return told;
}

}  // namespace

std::vector<std::string> Seeds() {
  std::vector<std::string> seeds;
  for (const CallCase& call : CallCases()) {
    const size_t half = call.text.size() / 2;
    for (const char place : {'a', 's'}) {
      const std::string how = {place, static_cast<char>('0' + static_cast<int>(call.syntax))};
      seeds.push_back(JoinParts({how, call.text.substr(0, half), call.text.substr(half)}));
    }
  }
  const std::string one = "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": [1, \"}\\\"\"]}}\n</tool_call>";
  const std::vector<std::string> others = {
      JoinParts({"a", "Let me see.\n" + one, "\n" + one}),
      JoinParts({"s", one.substr(0, 20), one.substr(20)}),
      JoinParts({"a", "<tool_call>\n{\"name\": \"", "x\", \"arguments\": {"}),
      JoinParts({"n", one, ""}),
      JoinParts({"s1", R"({"name": "f", "param)", R"(eters": {"a": 1}}; {"name": "g", "parameters": {}})"}),
      JoinParts({"s2", R"([TOOL_CALLS] [{"name": "f", "arguments": {"a": 1}, "id": "aB3456789"}, {"name": "g)", ""}),
      JoinParts({"s3", R"([TOOL_CALLS][{"name": "f", "arguments": {}, "id": "aB3)", R"(456789"}])"})};
  seeds.insert(seeds.end(), others.begin(), others.end());
  return seeds;
}

}  // namespace ringside

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ringside;
  const std::vector<std::string_view> parts = SplitParts(data, size, 3);
  const std::string_view how = parts[0];
  const CallPlace place = how.starts_with("a")   ? CallPlace::kAny
                          : how.starts_with("s") ? CallPlace::kStart
                                                 : CallPlace::kNone;
  const size_t number = how.size() > 1 ? static_cast<uint8_t>(how[1] - '0') % ToolSyntaxes().size() : 0;
  const ToolSyntaxName syntax = ToolSyntaxes()[number].name;
  const std::string whole = std::string(parts[1]) + std::string(parts[2]);
  const Told told = Read(place, syntax, {parts[1], parts[2]}), once = Read(place, syntax, {whole});
  Require(told.shown == once.shown && told.text == once.text && told.calls.size() == once.calls.size() &&
              told.calls_at == once.calls_at,
          "pieces make no difference");
  std::string written = told.text;
  int64_t calls_at = -1;
  for (const ToolCall& call : told.calls) AppendToolCall(call.name, call.arguments, &written, &calls_at);
  if (calls_at < 0) return 0;
  const std::vector<ToolCall> again = ReadToolCalls(std::string_view(written).substr(static_cast<size_t>(calls_at)));
  Require(!again.empty() && again.front().name == told.calls.front().name, "a call is read as it was written");
  (void)ComparableText(whole, told.calls_at);
  if (place == CallPlace::kStart) {
    const std::string calls = told.shown.substr(static_cast<size_t>(told.calls_at));
    const bool transcoded = !SyntaxOf(syntax).has_json() && !told.calls.empty();
    Require(BeginsAsCalls(SyntaxOf(transcoded ? ToolSyntaxName::kHermes : syntax), calls),
            "calls begin like their syntax");
    Require(ReadToolCalls(calls).empty() == told.calls.empty(), "calls are read again");
    (void)ReadToolCalls(whole);
  }
  return 0;
}
