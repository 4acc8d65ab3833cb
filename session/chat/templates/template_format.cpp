#include "session/chat/templates/template_format.h"

#include <utility>

#include "session/chat/jinja/text.h"
#include "session/chat/templates/template_learning.h"
#include "session/chat/templates/template_run.h"

namespace ringside {
namespace {

using jinja::Strip;
using SystemPlace = TemplateFormat::SystemPlace;

constexpr TemplateFormat::Trims kBothEnds = {TemplateFormat::Trim::kAll, TemplateFormat::Trim::kAll};

TemplateFormat ChatMl(std::string_view name, std::optional<std::string> default_system) {
  TemplateFormat format;
  format.name = name;
  format.default_system = std::move(default_system);
  format.system_open = "<|im_start|>system\n";
  format.user_open = "<|im_start|>user\n";
  format.assistant_open = "<|im_start|>assistant\n";
  format.system_close = format.user_close = "<|im_end|>\n";
  format.end_of_turn = "<|im_end|>";
  format.after_end = "\n";
  return format;
}

TemplateFormat Llama3(std::string_view name, std::string bos) {
  TemplateFormat format;
  format.name = name;
  format.bos = std::move(bos);
  format.system_open = "<|start_header_id|>system<|end_header_id|>\n\n";
  format.user_open = "<|start_header_id|>user<|end_header_id|>\n\n";
  format.assistant_open = "<|start_header_id|>assistant<|end_header_id|>\n\n";
  format.system_close = format.user_close = format.end_of_turn = "<|eot_id|>";
  format.trim_system = format.trim_user = format.trim_assistant = kBothEnds;
  if (name == "llama3.1") {
    format.default_system = "";
    format.late_system_open = format.system_open;
    const std::string head = format.system_open;
    const std::string dates = "Cutting Knowledge Date: December 2023\nToday Date: 26 Jul 2024\n\n";
    format.system_open = head + dates;
    format.tools_system_open = head + "Environment: ipython\n" + dates;
    format.tools = ToolSyntaxName::kLlama;
    format.end_of_call = "<|eom_id|>";
  }
  return format;
}

TemplateFormat Llama2(std::string bos, std::string eos) {
  TemplateFormat format;
  format.name = "llama2";
  format.bos = std::move(bos);
  format.bos_each_user = true;
  format.system_place = SystemPlace::kFirstUser;
  format.system_open = "<<SYS>>\n";
  format.system_close = "\n<</SYS>>\n\n";
  format.user_open = "[INST] ";
  format.user_close = " [/INST]";
  format.answer_lead = format.answer_trail = " ";
  format.end_of_turn = std::move(eos);
  format.trim_user = format.trim_assistant = kBothEnds;
  format.trim_user_right_only_after_system = true;
  return format;
}

// Mistral's instruct releases differ in single spaces.
TemplateFormat Mistral(std::string_view name, std::string bos, std::string eos) {
  TemplateFormat format;
  format.name = name;
  format.bos = std::move(bos);
  format.system_place = SystemPlace::kFirstUser;
  format.system_close = "\n\n";
  format.user_open = "[INST] ";
  format.user_close = " [/INST]";
  format.end_of_turn = std::move(eos);
  return format;
}

TemplateFormat Gemma(std::string bos) {
  TemplateFormat format;
  format.name = "gemma";
  format.bos = std::move(bos);
  format.system_place = SystemPlace::kFirstUser;
  format.system_close = "\n\n";
  format.user_open = "<start_of_turn>user\n";
  format.user_close = "<end_of_turn>\n";
  format.assistant_open = "<start_of_turn>model\n";
  format.end_of_turn = "<end_of_turn>";
  format.after_end = "\n";
  format.trim_user = format.trim_assistant = kBothEnds;
  return format;
}

// "<|user|>\n...": Zephyr with the model's eos, Phi-3 with <|end|>.
TemplateFormat BarRoles(std::string_view name, std::string bos, std::string end) {
  TemplateFormat format;
  format.name = name;
  format.bos = std::move(bos);
  format.system_open = "<|system|>\n";
  format.user_open = "<|user|>\n";
  format.assistant_open = "<|assistant|>\n";
  format.system_close = format.user_close = end + "\n";
  format.end_of_turn = std::move(end);
  format.after_end = "\n";
  return format;
}

TemplateFormat Phi4() {
  TemplateFormat format = ChatMl("phi4", std::nullopt);
  format.system_open = "<|im_start|>system<|im_sep|>";
  format.user_open = "<|im_start|>user<|im_sep|>";
  format.assistant_open = "<|im_start|>assistant<|im_sep|>";
  format.system_close = format.user_close = "<|im_end|>";
  format.after_end = "";
  return format;
}

// For models without a template: a transcript that they can continue.
TemplateFormat Plain(std::string begin) {
  TemplateFormat format;
  format.name = "plain";
  format.bos = std::move(begin);
  format.system_close = "\n\n";
  format.user_open = "User: ";
  format.user_close = "\n";
  format.assistant_open = "Assistant:";
  format.answer_lead = " ";
  format.after_end = "\n";
  format.stop_strings = {"\nUser:"};
  return format;
}

/// The named family with the format's strings, ignoring white space; "own" if there is none.
std::string NameOf(const TemplateFormat& format, const ChatTemplate::Facts& facts) {
  std::string best = "own";
  int most = -1;
  for (const std::string_view name : FormatNames()) {
    const TemplateFormat family = *FormatByName(name, facts);
    const auto same = [](std::string_view a, std::string_view b) { return Strip(a) == Strip(b); };
    if (!same(format.user_open, family.user_open) || !same(format.user_close, family.user_close) ||
        !same(format.assistant_open, family.assistant_open) || format.end_of_turn != family.end_of_turn ||
        format.bos_each_user != family.bos_each_user) {
      continue;
    }
    const int common = (format.default_system == family.default_system ? 1 : 0) +
                       (format.drop_thinking == family.drop_thinking ? 1 : 0) +
                       (format.system_open == family.system_open ? 1 : 0) + (format.tools == family.tools ? 1 : 0);
    if (common <= most) continue;
    most = common;
    best = name;
  }
  return best;
}

}  // namespace

std::string_view TemplateFormat::Trims::Of(std::string_view text) const {
  if (left != Trim::kNone) text = left == Trim::kAll ? jinja::StripLeft(text) : jinja::StripLeft(text, "\n");
  if (right != Trim::kNone) text = right == Trim::kAll ? jinja::StripRight(text) : jinja::StripRight(text, "\n");
  return text;
}

bool IsAbsent(std::string_view text, TemplateFormat::NoText which) {
  using NoText = TemplateFormat::NoText;
  return which != NoText::kNever && (which == NoText::kBlank ? Strip(text) : text).empty();
}

const std::vector<std::string_view>& FormatNames() {
  static const std::vector<std::string_view> names = {"chatml", "smollm",   "qwen2",  "qwen2.5", "qwen3",
                                                      "llama3", "llama3.1", "llama2", "mistral", "gemma",
                                                      "zephyr", "phi3",     "phi4",   "plain"};
  return names;
}

std::optional<TemplateFormat> FormatByName(std::string_view name, const ChatTemplate::Facts& facts) {
  const auto bos = [&](const char* usual) { return facts.bos.empty() ? std::string(usual) : facts.bos; };
  const auto eos = [&](const char* usual) { return facts.eos.empty() ? std::string(usual) : facts.eos; };
  if (name == "chatml") return ChatMl(name, std::nullopt);
  if (name == "smollm") return ChatMl(name, "You are a helpful AI assistant named SmolLM, trained by Hugging Face");
  if (name == "qwen2") return ChatMl(name, "You are a helpful assistant.");
  if (name == "qwen2.5") {
    return ChatMl(name, "You are Qwen, created by Alibaba Cloud. You are a helpful assistant.");
  }
  if (name == "qwen3") {
    TemplateFormat format = ChatMl(name, std::nullopt);
    format.drop_thinking = true;
    return format;
  }
  if (name == "llama3" || name == "llama3.1") return Llama3(name, bos("<|begin_of_text|>"));
  if (name == "llama2") return Llama2(bos("<s>"), eos("</s>"));
  if (name == "mistral") return Mistral(name, bos("<s>"), eos("</s>"));
  if (name == "gemma") return Gemma(bos("<bos>"));
  if (name == "zephyr") return BarRoles(name, "", eos("</s>"));
  if (name == "phi3") return BarRoles(name, "", "<|end|>");
  if (name == "phi4") return Phi4();
  if (name == "plain") return Plain(facts.text_begin);
  return std::nullopt;
}

void LearnPartSeparators(const TemplateRun& run, TemplateFormat* format) {
  for (const ChatRole role : {ChatRole::kSystem, ChatRole::kUser, ChatRole::kAssistant}) {
    format->part_separators[static_cast<size_t>(role)] = run.PartSeparator(role);
    format->trims_parts[static_cast<size_t>(role)] = run.TrimsParts(role);
  }
  format->image_markup = run.ImageMarkup();
}

Result<TemplateFormat> LearnFormat(const TemplateRun& run, const ChatTemplate::Facts& facts) {
  std::vector<std::string> caveats;
  ASSIGN_OR_RETURN(TemplateFormat format, LearnMessages(run, facts, &caveats));
  LearnTools(run, &format, &caveats);
  LearnPartSeparators(run, &format);
  RETURN_IF_ERROR(CheckFormat(run, &format, &caveats));
  format.name = NameOf(format, facts);
  for (const std::string& caveat : caveats) format.caveat += (format.caveat.empty() ? "" : "; ") + caveat;
  return format;
}

}  // namespace ringside
