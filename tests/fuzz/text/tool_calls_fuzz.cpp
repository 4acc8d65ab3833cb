// The text of an answer in which tool calls are looked for. Input: the place and the syntax, and the text's pieces.
// What is told is the same in one piece; text and calls together are all of it; and calls can be written as they were
// read.
#include "session/tools/tool_calls.h"
#include "tests/fuzz/fuzz_target.h"

namespace ringside {
namespace {

struct Told {
  std::string text;
  std::vector<ToolCall> calls;
  int64_t calls_at = -1;
};

Told Read(CallPlace place, ToolSyntaxName syntax, const std::vector<std::string_view>& pieces) {
  ToolCallReader reader(place, syntax);
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
    all += piece;
    note(reader.Push(piece));
  }
  note(reader.Finish());
  told.calls_at = reader.calls_at();
  if (told.calls_at < 0) {
    Require(told.calls.empty() && told.text == all, "without calls all is text");
  } else {
    Require(told.text.size() == static_cast<size_t>(told.calls_at), "the calls begin where the text ends");
  }
  return told;
}

}  // namespace

std::vector<std::string> Seeds() {
  const std::string one = "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": [1, \"}\\\"\"]}}\n</tool_call>";
  return {
      JoinParts({"a", "Let me see.\n" + one, "\n" + one}),
      JoinParts({"s", one.substr(0, 20), one.substr(20)}),
      JoinParts({"a", "<tool_call>\n{\"name\": \"", "x\", \"arguments\": {"}),
      JoinParts({"n", one, ""}),
      JoinParts({"s1", R"({"name": "f", "param)", R"(eters": {"a": 1}}; {"name": "g", "parameters": {}})"}),
      JoinParts({"s2", R"([TOOL_CALLS] [{"name": "f", "arguments": {"a": 1}, "id": "aB3456789"}, {"name": "g)", ""}),
      JoinParts({"s3", R"([TOOL_CALLS][{"name": "f", "arguments": {}, "id": "aB3)", R"(456789"}])"})};
}

}  // namespace ringside

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ringside;
  const std::vector<std::string_view> parts = SplitParts(data, size, 3);
  const std::string_view how = parts[0];
  const CallPlace place = how.starts_with("a")   ? CallPlace::kAny
                          : how.starts_with("s") ? CallPlace::kStart
                                                 : CallPlace::kNone;
  const size_t number = how.size() > 1 ? static_cast<size_t>(how[1]) % ToolSyntaxes().size() : 0;
  const ToolSyntaxName syntax = ToolSyntaxes()[number].name;
  const std::string whole = std::string(parts[1]) + std::string(parts[2]);
  const Told told = Read(place, syntax, {parts[1], parts[2]}), once = Read(place, syntax, {whole});
  Require(told.text == once.text && told.calls.size() == once.calls.size() && told.calls_at == once.calls_at,
          "pieces make no difference");
  std::string written = told.text;
  int64_t calls_at = -1;
  for (const ToolCall& call : told.calls) AppendToolCall(call.name, call.arguments, &written, &calls_at);
  if (calls_at < 0) return 0;
  const std::vector<ToolCall> again = ReadToolCalls(std::string_view(written).substr(static_cast<size_t>(calls_at)));
  Require(!again.empty() && again.front().name == told.calls.front().name, "a call is read as it was written");
  (void)ComparableText(whole, told.calls_at);
  if (place == CallPlace::kStart) {
    const std::string calls = whole.substr(static_cast<size_t>(told.calls_at));
    Require(SyntaxOfCalls(calls) == syntax, "calls say in which syntax they are");
    Require(ReadToolCalls(calls).size() == told.calls.size(), "all calls are read again");
  }
  return 0;
}
