// Which family a Jinja source belongs to, told by the expressions that write its messages, and its details: spaces,
// default system message, trimming.
#include <algorithm>
#include <array>
#include <string>

#include "session/chat/template_format.h"
#include "session/chat/template_source.h"

namespace ringside {
namespace {

using Facts = ChatTemplate::Facts;
using Recogniser = std::optional<TemplateFormat> (*)(const TemplateSource&, const Facts&);

// A template that names bos_token writes it, if the tokenizer has one; one that does not must not get it.
std::string BosOf(const TemplateSource& source, const Facts& facts) {
  return source.Has("{{bos_token}}") || source.Has("{{bos_token+") || source.Has("=bos_token+") ? facts.bos : "";
}

std::optional<TemplateFormat> ChatMl(const TemplateSource& source, const Facts& facts) {
  const bool writes_messages = source.Has("'<|im_start|>'+message['role']+'\n'+message['content']") ||
                               (source.Has("'<|im_start|>'+message['role']+'\n'+content") && source.Has("</think>"));
  if (!writes_messages || !source.Has("<|im_end|>") || !source.Has("<|im_start|>assistant\n'")) return std::nullopt;
  TemplateFormat format = *FormatByName("chatml", facts);
  format.bos = BosOf(source, facts);
  format.trim_system = format.trim_user = format.trim_assistant = source.Has("message['content']|trim");
  const bool newline = source.Has("<|im_end|>\n") || source.Has("'<|im_end|>'}}\x01\n");
  if (!newline) {
    format.system_close = format.user_close = "<|im_end|>";
    format.after_end = "";
  }
  // The default system message: a literal of its own, or the value of a variable.
  std::optional<std::string> text = source.LiteralBetween("'<|im_start|>system\n", "<|im_end|>");
  if (!text && source.Has("'<|im_start|>system\n'+system_message")) {
    text = source.LiteralBetween("system_message='", "'");
  }
  if (text) format.default_system = std::move(text);
  if (source.Has("</think>") && source.Has(".split('</think>')")) {
    format.name = "qwen3";
    format.drop_thinking = true;
    format.caveat = "the thinking of earlier answers stays in the conversation";
  } else if (format.default_system) {
    for (const std::string_view name : {"smollm", "qwen2", "qwen2.5"}) {
      if (FormatByName(name, facts)->default_system == format.default_system) format.name = name;
    }
  }
  return format;
}

std::optional<TemplateFormat> Phi4(const TemplateSource& source, const Facts& facts) {
  if (!source.Has("'<|im_start|>user<|im_sep|>'+message['content']+'<|im_end|>") ||
      !source.Has("<|im_start|>assistant<|im_sep|>")) {
    return std::nullopt;
  }
  return FormatByName("phi4", facts);
}

std::optional<TemplateFormat> Llama3(const TemplateSource& source, const Facts& facts) {
  if (!source.Has("'<|start_header_id|>'+message['role']+'<|end_header_id|>\n\n'+message['content']") ||
      !source.Has("<|eot_id|>")) {
    return std::nullopt;
  }
  const bool dated = source.Has("Cutting Knowledge Date: December 2023");
  TemplateFormat format = *FormatByName(dated ? "llama3.1" : "llama3", facts);
  format.bos = BosOf(source, facts);
  format.trim_system = format.trim_user = format.trim_assistant = source.Has("message['content']|trim");
  if (dated) {
    const auto date = source.LiteralBetween("date_string='", "'");
    if (!date) return std::nullopt;
    SetDate(*date, &format);
    if (!source.Has("Environment: ipython") || !source.Has("'{\"name\": \"'") || !source.Has("'\"parameters\": '")) {
      format.tools = ToolSyntaxName::kHermes;
      format.tools_system_open.reset();
    }
    format.trim_system = true;
    if (source.Has("strftime_now")) format.caveat = "the system message names the date " + *date + ", not today's";
  }
  return format;
}

std::optional<TemplateFormat> Llama2(const TemplateSource& source, const Facts& facts) {
  if (!source.Has("'<<SYS>>\n'+system_message+'\n<</SYS>>\n\n'+message") ||
      !source.Has("bos_token+'[INST] '+content|trim+' [/INST]'") || !source.Has("' '+content|trim+' '+eos_token")) {
    return std::nullopt;
  }
  TemplateFormat format = *FormatByName("llama2", facts);
  format.bos = facts.bos;
  return format;
}

std::optional<TemplateFormat> Mistral(const TemplateSource& source, const Facts& facts) {
  if (source.Has("<<SYS>>") || source.Has("strftime_now")) return std::nullopt;
  TemplateFormat format = *FormatByName("mistral", facts);
  format.bos = BosOf(source, facts);
  bool found = false;
  for (const std::string_view open : {" [INST] ", "[INST] ", "[INST]"}) {
    for (const std::string_view close : {" [/INST]", "[/INST]"}) {
      const std::string expression = "'" + std::string(open) + "'+message['content']+'" + std::string(close) + "'";
      if (found || !source.Has(expression)) continue;
      format.user_open = open;
      format.user_close = close;
      found = true;
    }
  }
  struct Answer {
    std::string_view expression, lead, after;
    bool trim;
  };
  static constexpr std::array<Answer, 6> kAnswers = {{{"' '+message['content']|trim+eos_token", " ", "", true},
                                                      {"' '+message['content']+eos_token", " ", "", false},
                                                      {"message['content']|trim+eos_token", "", "", true},
                                                      {"message['content']+eos_token+' '", "", " ", false},
                                                      {"message['content']+eos_token", "", "", false},
                                                      {"message['content']+'</s>'", "", "", false}}};
  const auto answer = std::ranges::find_if(kAnswers, [&](const Answer& a) { return source.Has(a.expression); });
  if (!found || answer == kAnswers.end()) return std::nullopt;
  format.answer_lead = answer->lead;
  format.after_end = answer->after;
  format.trim_assistant = answer->trim;
  if (source.Has("'[SYSTEM_PROMPT]'+")) {
    format.system_place = TemplateFormat::SystemPlace::kOwnTurn;
    format.system_open = "[SYSTEM_PROMPT]";
    format.system_close = "[/SYSTEM_PROMPT]";
  } else if (source.Has("loop.lastandsystem_message")) {
    format.caveat = "the system message stands in the first user message, not in the last";
  }
  // Later versions call otherwise.
  const bool ids = source.Has("', \"id\": \"'") && source.Has("[TOOL_RESULTS]");
  if (ids && source.Has("'[TOOL_CALLS] ['") && source.Has("'[AVAILABLE_TOOLS] ['")) {
    format.tools = ToolSyntaxName::kMistral;
  } else if (ids && source.Has("'[TOOL_CALLS]['") && source.Has("'[AVAILABLE_TOOLS]['")) {
    format.tools = ToolSyntaxName::kMistralTekken;
  }
  if (format.tools != ToolSyntaxName::kHermes && source.Has("user_messages[-1]")) {
    if (!format.caveat.empty()) format.caveat += "; ";
    format.caveat += "tools are told before the first user message, not before the last";
  }
  return format;
}

std::optional<TemplateFormat> Gemma(const TemplateSource& source, const Facts& facts) {
  if (!source.Has("'<start_of_turn>'+role+'\n'") || !source.Has("<end_of_turn>\n") ||
      !source.Has("message['content']|trim") || !source.Has("<start_of_turn>model\n")) {
    return std::nullopt;
  }
  TemplateFormat format = *FormatByName("gemma", facts);
  format.bos = BosOf(source, facts);
  return format;
}

std::optional<TemplateFormat> Phi3(const TemplateSource& source, const Facts& facts) {
  if (!source.Has("'<|user|>\n'+message['content']+'<|end|>\n") || !source.Has("<|assistant|>\n")) return std::nullopt;
  TemplateFormat format = *FormatByName("phi3", facts);
  format.bos = BosOf(source, facts);
  if (!source.Has("<|system|>")) format.caveat = "system messages are written, which the model's own template drops";
  return format;
}

std::optional<TemplateFormat> Zephyr(const TemplateSource& source, const Facts& facts) {
  if (!source.Has("'<|user|>\n'+message['content']+eos_token") || !source.Has("'<|assistant|>")) return std::nullopt;
  TemplateFormat format = *FormatByName("zephyr", facts);
  format.bos = BosOf(source, facts);
  return format;
}

}  // namespace

Result<TemplateFormat> FormatFromSource(std::string_view jinja_source, const Facts& facts) {
  static constexpr size_t kMaxSourceBytes = 1 << 20;
  static constexpr std::array<Recogniser, 8> kRecognisers = {Phi4,    ChatMl, Llama3, Llama2,
                                                             Mistral, Gemma,  Phi3,   Zephyr};
  if (jinja_source.size() <= kMaxSourceBytes) {
    const TemplateSource source(jinja_source);
    for (const Recogniser recognise : kRecognisers) {
      if (std::optional<TemplateFormat> format = recognise(source, facts)) return *std::move(format);
    }
  }
  std::string names;
  for (const std::string_view name : FormatNames()) names += (names.empty() ? "" : ", ") + std::string(name);
  return InvalidArgument("the model's chat template is none that is known; choose one by name: " + names);
}

}  // namespace ringside
