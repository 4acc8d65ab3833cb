// A model's chat template, and messages rendered by it. Input: its Jinja source.
#include <algorithm>

#include "session/chat/templates/chat_template.h"
#include "session/tools/tool_calls.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/golden_folder.h"

namespace ringside {

namespace {

void RenderWhole(const ChatTemplate& chat, std::span<const ChatMessage> messages, std::string_view tools = "") {
  static const auto tokenizer =
      std::move(MakeTokenizer(ReadHuggingFaceTokenizer(GoldenFolder("tokenizer/qwen2")).value()).value());
  const Result<Rendering> rendering = chat.RenderWhole(messages, true, tools, *tokenizer);
  if (!rendering.ok()) return;
  const auto encoded = EncodeRendering(*tokenizer, *rendering, 1 << 20);
  if (!encoded) return;
  Require(encoded->message_starts.size() == messages.size() + 1, "every message begins somewhere");
  Require(std::ranges::is_sorted(encoded->message_starts), "one behind the other");
}

}  // namespace

std::vector<std::string> Seeds() {
  std::vector<std::string> seeds;
  for (const std::string name : {"chatml", "gemma3", "llama2", "llama3.1", "mistral_v7", "phi4", "plain", "qwen3",
                                 "zephyr", "dated_modes", "qwen3_coder_calls", "kimi_calls"}) {
    seeds.push_back(ReadGolden("chat_template/" + name + ".jinja"));
  }
  return seeds;
}

}  // namespace ringside

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ringside;
  const std::string_view source(reinterpret_cast<const char*>(data), size);
  const Result<ChatTemplate> chat = ChatTemplate::Recognise(source, {"<s>", "</s>"});
  if (!chat.ok()) return 0;
  const ChatMessage messages[] = {{ChatRole::kSystem, " Be kind. "},
                                  {ChatRole::kUser, "Hi</think>"},
                                  {ChatRole::kAssistant, "<think>a</think> Yo "}};
  if (chat->renders_whole(/*with_tools=*/true)) {
    std::vector<ChatMessage> called(std::begin(messages), std::end(messages));
    AppendToolCall("f", R"({"a": 1})", &called[2].content, &called[2].calls_at);
    called[2].model_ids = {"abcdefgh1"};
    called.push_back({ChatRole::kTool, "Found", -1, {"abcdefgh1"}});
    RenderWhole(*chat, called, R"({"type": "function", "function": {"name": "f", "parameters": {"properties": {}}}})");
  }
  if (chat->renders_whole()) {
    RenderWhole(*chat, messages);
    return 0;
  }
  const Rendering first = chat->Render(messages, TimelineEnd::kNothing, true);
  const Rendering next = chat->Render(std::span(messages).subspan(1, 1), TimelineEnd::kAnswerOpen, true);
  for (const Rendering& rendering : {first, next}) {
    for (const size_t start : rendering.message_starts)
      Require(start <= rendering.pieces.size(), "a message begins in the text");
  }
  Require(next.Text().find("Hi</think>") != std::string::npos, "what a user says is in the text");
  return 0;
}
