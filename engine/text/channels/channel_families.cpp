#include "engine/text/channels/channel_families.h"

#include <algorithm>
#include <array>

namespace ringside {
namespace {

using Layout = ChannelFormat::Layout;
using Start = ChannelFormat::Start;

constexpr std::array<ChannelFamily, 17> kTable = {{
    {.name = "harmony",
     .sign = "<|channel|>",
     .layout = Layout::kMessages,
     .open = "<|channel|>analysis<|message|>",
     .close = "<|end|>",
     .forced_close = "<|end|><|start|>assistant<|channel|>final<|message|>",
     .skip = "<|channel|>final<|message|>"},
    {.name = "gemma4",
     .sign = "<|channel>",
     .open = "<|channel>thought",
     .close = "<channel|>",
     .forced_close = "\n<channel|>",
     .skip = "<|channel>thought\n<channel|>"},
    {.name = "seed",
     .sign = "<seed:think>",
     .open = "<seed:think>",
     .close = "</seed:think>",
     .forced_close = "</seed:think>",
     .skip = "<seed:think></seed:think>"},
    {.name = "minimax_m3",
     .sign = "<mm:think>",
     .open = "<mm:think>",
     .close = "</mm:think>",
     .forced_close = "</mm:think>",
     .skip = "</mm:think>"},
    {.name = "mistral",
     .sign = "[THINK]",
     .open = "[THINK]",
     .close = "[/THINK]",
     .forced_close = "[/THINK]",
     .skip = "[THINK][/THINK]"},
    {.name = "command",
     .sign = "<|START_THINKING|>",
     .open = "<|START_THINKING|>",
     .close = "<|END_THINKING|>",
     .answer_open = "<|START_RESPONSE|>",
     .answer_close = "<|END_RESPONSE|>",
     .forced_close = "<|END_THINKING|><|START_RESPONSE|>",
     .skip = "<|START_THINKING|><|END_THINKING|>"},
    {.name = "apertus",
     .sign = "<|inner_prefix|>",
     .open = "<|inner_prefix|>",
     .close = "<|inner_suffix|>",
     .forced_close = "<|inner_suffix|>",
     .skip = "<|inner_prefix|><|inner_suffix|>"},
    {.name = "granite",
     .sign = "<response></response>",
     .open = "<think>",
     .close = "</think>",
     .answer_open = "<response>",
     .answer_close = "</response>",
     .forced_close = "</think>\n<response>",
     .skip = "<think></think>\n<response>"},
    {.name = "hunyuan",
     .sign = "<answer>",
     .open = "<think>",
     .close = "</think>",
     .answer_open = "<answer>",
     .answer_close = "</answer>",
     .forced_close = "\n</think>\n<answer>\n",
     .skip = "<think>\n\n</think>\n"},
    // Solar Open: each channel is a message, and <|end|> ends the turn only after the answer.
    {.name = "solar_open",
     .sign = "<|think|>",
     .open = "<|think|>",
     .close = "<|end|><|begin|>assistant<|content|>",
     .forced_close = "<|end|><|begin|>assistant<|content|>",
     .skip = "<|think|><|end|><|begin|>assistant<|content|>"},
    {.name = "kimi_k3",
     .sign = "<|open|>",
     .open = "<|open|>think<|sep|>",
     .close = "<|close|>think<|sep|>",
     .answer_open = "<|open|>response<|sep|>",
     .answer_close = "<|close|>response<|sep|>",
     .message_close = "<|close|>message<|sep|>",
     .forced_close = "<|close|>think<|sep|><|open|>response<|sep|>",
     .skip = "<|open|>think<|sep|><|close|>think<|sep|><|open|>response<|sep|>"},
    // Kimi's first models.
    {.name = "kimi",
     .sign = "\u25c1/think\u25b7",
     .open = "\u25c1think\u25b7",
     .close = "\u25c1/think\u25b7",
     .forced_close = "\u25c1/think\u25b7",
     .skip = "\u25c1think\u25b7\u25c1/think\u25b7"},
    // Apriel Thinker, whose template opens reasoning in these words; others of the series have tags.
    {.name = "apriel",
     .sign = "[BEGIN FINAL RESPONSE]",
     .open = "Here are my reasoning steps:",
     .close = "[BEGIN FINAL RESPONSE]",
     .answer_close = "[END FINAL RESPONSE]",
     .forced_close = "\n[BEGIN FINAL RESPONSE]\n",
     .skip = "[BEGIN FINAL RESPONSE]\n"},
    {.name = "apriel_tags",
     .sign = "</thinking>",
     .open = "<thinking>",
     .close = "</thinking>",
     .forced_close = "\n</thinking>\n",
     .skip = "<thinking>\n</thinking>\n"},
    // Hy3, Hy4: the template makes its tokens of a variable.
    {.name = "hy_open",
     .sign = ":opensource",
     .open = "<think:opensource>",
     .close = "</think:opensource>",
     .forced_close = "</think:opensource>",
     .skip = "<think:opensource></think:opensource>"},
    {.name = "hy",
     .sign = "</think{}>",
     .open = "<think>",
     .close = "</think>",
     .forced_close = "</think>",
     .skip = "<think></think>"},
    // Qwen 3, DeepSeek, GLM, MiniMax M2, Nemotron, SmolLM3, Kimi K2 and others.
    {.name = "think",
     .sign = "</think>",
     .open = "<think>",
     .close = "</think>",
     .forced_close = "\n</think>\n\n",
     .skip = "<think>\n\n</think>\n\n"},
}};

Start StartAfter(const ChannelFamily& family, std::string_view prompt) {
  if (family.layout == Layout::kMessages) return prompt.ends_with("<|message|>") ? Start::kAnswer : Start::kUndecided;
  const size_t open = prompt.rfind(family.open), close = prompt.rfind(family.close);
  if (close != prompt.npos && (open == prompt.npos || open < close)) return Start::kAnswer;
  if (open == prompt.npos) return Start::kUndecided;
  const std::string_view first = family.close.substr(0, family.close.find('>') + 1);  // of several special tokens
  const bool closing = !first.empty() && prompt.find(first, open + family.open.size()) != prompt.npos;
  return closing ? Start::kUndecided : Start::kReasoning;
}

}  // namespace

const ChannelFamily* FamilyOfTemplate(std::string_view source) {
  const auto* const found =
      std::ranges::find_if(kTable, [&](const auto& family) { return source.find(family.sign) != source.npos; });
  return found == kTable.end() ? nullptr : &*found;
}

const ChannelFamily* FamilyByName(std::string_view name) {
  const auto* const found = std::ranges::find(kTable, name, &ChannelFamily::name);
  return found == kTable.end() ? nullptr : &*found;
}

ChannelFormat FormatAfter(const ChannelFamily& family, std::string_view prompt) {
  ChannelFormat format;
  format.family = family.name;
  format.layout = family.layout;
  format.start = StartAfter(family, prompt);
  format.open = family.open;
  format.close = family.close;
  format.answer_open = family.answer_open;
  format.answer_close = family.answer_close;
  format.message_close = family.message_close;
  format.forced_close = family.forced_close;
  return format;
}

}  // namespace ringside
