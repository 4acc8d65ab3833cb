// Sampled text split into channels. Input: the family, the generation prompt, then pieces, each text or, after a '!', a
// special token's name. The result does not depend on the split, and no text is reported twice.
#include <span>

#include "engine/text/channels/channel_families.h"
#include "engine/text/channels/channel_reader.h"
#include "tests/fuzz/fuzz_target.h"

namespace ringside {
namespace {

ChannelParts Read(const ChannelFormat& format, std::span<const std::string_view> pieces, bool bytes, bool* in_answer) {
  ChannelReader reader(std::make_shared<const ChannelFormat>(format));
  ChannelParts all;
  const auto add = [&](const ChannelParts& parts) {
    all.reasoning += parts.reasoning;
    all.text += parts.text;
  };
  for (const std::string_view piece : pieces) {
    if (piece.starts_with('!')) {
      add(reader.PushSpecial(piece.substr(1)));
    } else if (bytes) {
      for (size_t i = 0; i < piece.size(); ++i) add(reader.Push(piece.substr(i, 1)));
    } else {
      add(reader.Push(piece));
    }
  }
  *in_answer = reader.in_answer();
  add(reader.Finish());
  const ChannelParts nothing = reader.Finish();
  Require(nothing.reasoning.empty() && nothing.text.empty(), "the end is told once");
  return all;
}

}  // namespace

std::vector<std::string> Seeds() {
  return {
      JoinParts({"think", "<think>\n", "Hm", "\n</thi", "nk>\n\nParis"}),
      JoinParts({"think", "", "<think>a</think> b"}),
      JoinParts({"granite", "", "<think>a</think><response>", "b</response>c"}),
      JoinParts({"gemma4", "", "!<|channel>", "thought\na", "!<channel|>", "b"}),
      JoinParts({"harmony", "", "!<|channel|>", "analysis", "!<|message|>", "a", "!<|end|>", "!<|start|>", "assistant",
                 "!<|channel|>", "final", "!<|message|>", "b"}),
      JoinParts({"harmony", "", "!<|channel|>", "commentary to=functions.f", "!<|message|>", "{}", "!<|call|>"}),
  };
}

}  // namespace ringside

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ringside;
  const std::vector<std::string_view> parts = SplitParts(data, size);
  if (parts.size() < 2) return 0;
  const ChannelFamily* family = FamilyByName(parts[0]);
  if (family == nullptr) return 0;
  ChannelFormat format = FormatAfter(*family, parts[1]);
  format.call_open = format.call_next = "<call>";
  format.call_close = "</call>";
  size_t bytes = 0;
  for (const std::string_view part : parts) bytes += part.size() + 16;
  bool in_answer = false, in_answer_by_bytes = false;
  const std::span<const std::string_view> pieces = std::span(parts).subspan(2);
  const ChannelParts whole = Read(format, pieces, false, &in_answer);
  const ChannelParts by_bytes = Read(format, pieces, true, &in_answer_by_bytes);
  Require(whole.reasoning == by_bytes.reasoning && whole.text == by_bytes.text, "pieces do not matter");
  Require(in_answer == in_answer_by_bytes, "nor do they for where it stands");
  Require(whole.reasoning.size() + whole.text.size() <= 3 * bytes, "little more is told than was said");
  return 0;
}
