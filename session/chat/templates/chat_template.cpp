#include "session/chat/templates/chat_template.h"

#include <algorithm>

#include "base/check.h"
#include "engine/grammar/schema/json_text.h"
#include "session/chat/jinja/text.h"
#include "session/chat/templates/conversation_kinds.h"
#include "session/chat/templates/json_value.h"
#include "session/chat/templates/reasoning_settings.h"
#include "session/chat/templates/template_format.h"
#include "session/chat/templates/template_run.h"
#include "session/chat/templates/whole_template.h"
#include "session/tools/tool_calls.h"
#include "session/tools/tool_definitions.h"

namespace ringside {
namespace {

using jinja::StripRight;

// Writes one rendering; see ChatTemplate::Render for the order.
class Renderer {
 public:
  /// `tools` are rendered once, in their place.
  Renderer(const TemplateFormat& format, TimelineEnd before, std::string_view tools)
      : format_(format),
        syntax_(SyntaxOf(format.tools)),
        tools_(tools),
        first_(before == TimelineEnd::kNothing),
        user_open_(before == TimelineEnd::kUserOpen || before == TimelineEnd::kResultsOpen),
        results_open_(before == TimelineEnd::kResultsOpen) {}

  void CloseAnswer(TimelineEnd before) {
    if (before == TimelineEnd::kAnswerOpen) Markup(format_.answer_trail + format_.end_of_turn + format_.after_end);
    if (before == TimelineEnd::kAnswerEnded) Markup(format_.after_end);
  }

  void BeginConversation() {
    if (!format_.bos_each_user) Markup(format_.bos);
    Pin();
  }

  /// The template's own text, in which special tokens are markup. Without such a text it contains the tools only.
  void DefaultSystem() { WriteSystem(format_.default_system, true, true); }
  /// In place of a first system message without text.
  void EmptySystem() {
    if (format_.empty_system.empty()) return;
    Start();
    Markup(format_.empty_system);
    Pin();
  }
  /// `first`: the conversation's first message, which is pinned.
  void System(std::string_view text, bool first) { WriteSystem(format_.trim_system.Of(text), first, false); }

  /// Renders tools in the first user message if no system message has done so.
  void WriteToolsInUserMessage() {
    if (tools_.empty()) return;
    OpenUser();
    Pin();
  }

  void User(std::string_view content) {
    CloseResults();
    const bool behind_system = user_open_;
    OpenUser();
    TemplateFormat::Trims trims = format_.trim_user;
    const bool joined = behind_system && format_.trim_user_right_only_after_system;
    if (joined) trims.left = TemplateFormat::Trim::kNone;
    content = trims.Of(content);
    if (joined && content.empty() && !out_.pieces.empty()) TrimLastPiece();
    Content(content);
    CloseUser();
  }

  void Result(const ChatMessage& message) {
    if (syntax_.joined) {
      OpenUser();
      if (results_open_) Markup("\n");
      results_open_ = true;
    } else {
      CloseUser();
      Start();
    }
    Markup(WithId(syntax_.before_result, ModelId(message, 0)));
    Content(syntax_.quoted ? JsonString(message.content) : message.content);
    Markup(WithId(syntax_.after_result, ModelId(message, 0)));
  }

  void Assistant(const ChatMessage& message) {
    CloseUser();
    std::string_view content = message.content;
    size_t text_bytes = std::min(static_cast<size_t>(message.calls_at), content.size());
    if (format_.drop_thinking) {
      constexpr std::string_view kEnd = "</think>";
      if (const size_t end = content.substr(0, text_bytes).rfind(kEnd); end != std::string_view::npos) {
        size_t kept = end + kEnd.size();
        if (!format_.keep_newlines_after_thinking)
          kept = std::min(content.find_first_not_of('\n', kept), content.size());
        content.remove_prefix(kept);
        text_bytes -= std::min(text_bytes, kept);
      }
    }
    const bool calls = message.calls_at >= 0;
    const std::string_view text = content.substr(0, text_bytes);
    Start();
    if (!calls && message.reasoning.empty() && IsAbsent(text, format_.absent_answer))
      return Markup(format_.empty_answer);
    const auto& markup = message.current ? format_.current_reasoning : format_.reasoning;
    const bool reasons = !message.reasoning.empty() && markup;
    if (reasons) {
      Markup(markup->first);
      Content(message.reasoning);
      Markup(markup->second);
    } else {
      Markup(format_.assistant_open);
    }
    if (!calls || !syntax_.alone) {
      if (!reasons) Markup(format_.answer_lead);
      Content(format_.trim_assistant.Of(text));
    }
    if (calls) Calls(content.substr(text_bytes), message, !text.empty() && !syntax_.alone);
    Markup(format_.answer_trail + format_.end_of_turn + format_.after_end);
  }

  void OpenAnswer() {
    CloseUser();
    Start();
    Markup(format_.generation_prompt.value_or(format_.assistant_open));
    out_.end = TimelineEnd::kAnswerOpen;
  }

  Rendering Take(bool answer_opened) {
    if (!answer_opened) {
      out_.end = results_open_ ? TimelineEnd::kResultsOpen
                 : user_open_  ? TimelineEnd::kUserOpen
                               : TimelineEnd::kMessageDone;
    }
    return std::move(out_);
  }

 private:
  void WriteSystem(std::optional<std::string_view> text, bool first, bool markup) {
    if (format_.system_place == TemplateFormat::SystemPlace::kFirstUser) {
      CloseResults();
      OpenUser();
      Markup(format_.system_open);
    } else {
      CloseUser();
      Start();
      const std::string& open =
          tools_.empty() ? format_.system_open : format_.tools_system_open.value_or(format_.system_open);
      Markup(first ? open : format_.late_system_open.value_or(format_.system_open));
    }
    if (text) Append(std::string(*text), markup);
    WriteTools(ToolSyntax::Place::kSystemEnd, text ? "\n\n" : "");
    Markup(format_.system_close);
    if (first) Pin();
  }

  // Byte for byte where they are in the template's syntax and one is cut: that is what the model has written.
  void Calls(std::string_view calls, const ChatMessage& message, bool behind_text) {
    const std::vector<ToolCall> all = ReadToolCalls(calls);
    const bool whole = !all.empty() && std::ranges::all_of(all, &ToolCall::complete);
    if (!whole && BeginsAsCalls(syntax_, calls)) {
      const size_t marker = calls.starts_with('\n') ? 1 : 0;
      if (!calls.substr(marker).starts_with(syntax_.marker())) return Content(calls);
      Markup(std::string(calls.substr(0, marker + syntax_.marker_bytes)));
      return Content(calls.substr(marker + syntax_.marker_bytes));
    }
    size_t number = 0;
    for (const ToolCall& call : all) {
      Markup(std::string(number == 0 && !behind_text ? syntax_.opening : syntax_.next));
      Content(call.name);
      const std::string id = message.model_ids.empty() && !call.id.empty() ? call.id : ModelId(message, number);
      Markup(WithId(syntax_.before_arguments, id));
      Content(call.complete ? ToJsonText(call.arguments) : call.arguments);
      if (!call.complete) return;
      Markup(WithId(syntax_.after_arguments, id));
      ++number;
    }
    Markup(std::string(syntax_.close));
  }

  static std::string ModelId(const ChatMessage& message, size_t call) {
    return call < message.model_ids.size() ? message.model_ids[call] : std::string(kModelIdBytes, '0');
  }

  void WriteTools(ToolSyntax::Place place, std::string_view lead) {
    if (tools_.empty() || place != syntax_.place) return;
    Markup(std::string(lead) + std::string(syntax_.before_tools));
    Content(FormatTools(tools_, syntax_));
    Markup(std::string(syntax_.after_tools));
    tools_ = {};
  }

  void Start() { out_.message_starts.push_back(out_.pieces.size()); }
  void Pin() { out_.pinned_pieces = out_.pieces.size(); }
  void Markup(std::string text) { Append(std::move(text), true); }
  void Content(std::string_view text) { Append(std::string(text), false); }
  void Append(std::string text, bool markup) {
    if (!text.empty()) out_.pieces.push_back({std::move(text), markup});
  }

  void OpenUser() {
    if (user_open_) return;
    Start();
    if (format_.bos_each_user) {
      const bool begins = first_ && out_.pieces.empty();
      Markup(format_.bos);
      if (begins) Pin();
    }
    WriteTools(ToolSyntax::Place::kBeforeUser, "");
    Markup(format_.user_open);
    WriteTools(ToolSyntax::Place::kUserStart, "");
    user_open_ = true;
  }

  void CloseUser() {
    if (user_open_) Markup(format_.user_close);
    user_open_ = results_open_ = false;
  }

  void CloseResults() {
    if (results_open_) CloseUser();
  }

  void TrimLastPiece() {
    std::string& last = out_.pieces.back().text;
    last.resize(StripRight(last).size());
  }

  const TemplateFormat& format_;
  const ToolSyntax& syntax_;
  std::string_view tools_;  // not rendered yet
  const bool first_;
  bool user_open_, results_open_;
  Rendering out_;
};

bool BeginsWithSystem(std::span<const ChatMessage> messages) {
  return !messages.empty() && messages.front().role == ChatRole::kSystem;
}

void EndPrompt(const std::string& markup, bool add_generation_prompt, Rendering* rendering) {
  if (add_generation_prompt && !markup.empty()) rendering->pieces.push_back({markup, true});
}

/// Templates read tool results in the same way as user messages.
size_t PartsRole(ChatRole role) { return static_cast<size_t>(role == ChatRole::kTool ? ChatRole::kUser : role); }

Status Unusable(const Status& why, const std::string& remedy) {
  return InvalidArgument("the model's chat template cannot be used: " + why.message() + "; " + remedy);
}

}  // namespace

std::string_view TrimText(std::string_view text) { return jinja::Strip(text); }

Result<ChatRole> ParseChatRole(std::string_view name) {
  if (name == "system" || name == "developer") return ChatRole::kSystem;
  if (name == "user") return ChatRole::kUser;
  if (name == "assistant") return ChatRole::kAssistant;
  return InvalidArgument("unknown role '" + std::string(name) + "': one of system, developer, user, assistant", "role");
}

const char* ChatRoleName(ChatRole role) {
  switch (role) {
    case ChatRole::kSystem:
      return "system";
    case ChatRole::kUser:
      return "user";
    case ChatRole::kAssistant:
      return "assistant";
    case ChatRole::kTool:
      return "tool";
  }
  CheckFailed(__FILE__, __LINE__, "unknown role");
}

std::string Rendering::Text() const {
  std::string text;
  for (const TextPiece& piece : pieces) text += piece.text;
  return text;
}

Result<ChatTemplate> ChatTemplate::Recognise(std::string_view jinja_source, const Facts& facts) {
  const auto refuse = [](const Status& why) {
    std::string names;
    for (const std::string_view name : FormatNames()) names += (names.empty() ? "" : ", ") + std::string(name);
    return Unusable(why, "choose one by name (" + names + ") or give a file with another");
  };
  Result<TemplateRun> run = TemplateRun::FromSource(jinja_source, facts);
  if (!run.ok()) return refuse(run.status());
  Result<ChatTemplate> chat = OfRun(*run, facts);
  if (!chat.ok()) return refuse(chat.status());
  chat->reasoning_ =
      std::make_shared<const ReasoningSettings>(*std::move(run), facts, &ChatTemplate::OfRun, chat->tool_syntax());
  return chat;
}

Result<ChatTemplate> ChatTemplate::OfRun(TemplateRun run, const Facts& facts) {
  Result<TemplateFormat> format = LearnFormat(run, facts);
  const bool appends = format.ok() && !format->tools_whole;
  if (appends && format->kinds_anew == 0)
    return ChatTemplate(std::make_shared<const TemplateFormat>(*std::move(format)));
  const std::optional<LearnedCalls> calls = format.ok() && format->tools_whole ? format->tools_whole : LearnCalls(run);
  if (calls) run.set_call_form(calls->form);
  Result<WholeTemplate> whole = WholeTemplate::Learn(std::move(run), facts);
  if (format.ok()) {
    if (whole.ok() && appends) whole->FindMessagesBy(*format);
    if (!whole.ok()) format->kinds_anew = 0;
    ChatTemplate chat(std::make_shared<const TemplateFormat>(*std::move(format)));
    if (!whole.ok()) return chat;
    chat.whole_ = std::make_shared<const WholeTemplate>(*std::move(whole));
    if (!appends) chat.tool_syntax_ = calls->syntax;
    return chat;
  }
  if (!whole.ok()) return format.status();
  std::string caveat = "each turn renders its whole conversation anew: " + format.status().message();
  if (!whole->writes_calls()) caveat += "; tool calls, which the template does not write, are the answer's text";
  ChatTemplate chat(*std::move(whole), std::move(caveat));
  if (calls) chat.tool_syntax_ = calls->syntax;
  return chat;
}

ChatTemplate::ChatTemplate(std::shared_ptr<const TemplateFormat> format)
    : format_(std::move(format)), tool_syntax_(format_->tools) {}

ChatTemplate::ChatTemplate(WholeTemplate whole, std::string caveat) : always_whole_(true) {
  TemplateFormat ends = whole.Ends();
  ends.caveat = std::move(caveat);
  format_ = std::make_shared<const TemplateFormat>(std::move(ends));
  whole_ = std::make_shared<const WholeTemplate>(std::move(whole));
}

Result<ChatTemplate> ChatTemplate::ForEncoder(std::string_view jinja_source, const Facts& facts) {
  constexpr std::string_view kLines =
      "{% for message in messages %}{{ message.content }}{% if not loop.last %}{{ '\n' }}{% endif %}{% endfor %}"
      "{{ eos_token }}";
  const auto learn = [&]() -> Result<WholeTemplate> {
    ASSIGN_OR_RETURN(TemplateRun run, TemplateRun::FromSource(jinja_source.empty() ? kLines : jinja_source, facts));
    return WholeTemplate::LearnInput(std::move(run), facts);
  };
  Result<WholeTemplate> whole = learn();
  if (!whole.ok()) return Unusable(whole.status(), "give a file with another");
  return ChatTemplate(*std::move(whole), "each turn's encoder reads the conversation anew");
}

Result<ChatTemplate> ChatTemplate::Named(std::string_view name, const Facts& facts) {
  std::optional<TemplateFormat> format = FormatByName(name, facts);
  if (format) {
    const ChannelFamily* family = format->drop_thinking ? FamilyByName("think") : nullptr;
    ChatTemplate chat(std::make_shared<const TemplateFormat>(*std::move(format)));
    chat.reasoning_ = std::make_shared<const ReasoningSettings>(
        family, chat.format_->generation_prompt.value_or(chat.format_->assistant_open));
    return chat;
  }
  std::string choices;
  for (const std::string_view known : FormatNames()) choices += (choices.empty() ? "" : ", ") + std::string(known);
  return InvalidArgument("unknown chat template '" + std::string(name) + "': one of " + choices);
}

std::vector<std::string_view> ChatTemplate::Names() { return FormatNames(); }
bool ChatTemplate::renders_whole(bool with_tools) const {
  return whole_ != nullptr && (always_whole_ || (with_tools && format_->tools_whole));
}
uint32_t ChatTemplate::kinds_anew() const {
  if (whole_ == nullptr) return 0;
  return format_->kinds_anew | (format_->tools_whole ? uint32_t{kWithTools} : 0);
}
const std::vector<std::string>& ChatTemplate::tags() const { return format_->tags; }
const std::string& ChatTemplate::name() const { return format_->name; }
const std::string& ChatTemplate::caveat() const { return format_->caveat; }
const std::string& ChatTemplate::part_separator(ChatRole role) const {
  return format_->part_separators[PartsRole(role)];
}
bool ChatTemplate::trims_parts(ChatRole role) const { return format_->trims_parts[PartsRole(role)]; }
const std::string& ChatTemplate::image_markup() const { return format_->image_markup; }
const std::string& ChatTemplate::end_of_turn() const { return format_->end_of_turn; }
bool ChatTemplate::EndsAnswer(std::string_view token) const {
  return !token.empty() && (token == format_->end_of_turn || token == format_->end_of_call);
}
const std::string& ChatTemplate::assistant_open() const { return format_->assistant_open; }
const std::vector<std::string>& ChatTemplate::stop_strings() const { return format_->stop_strings; }

Result<SettledReasoning> ChatTemplate::Settle(const ReasoningSpec& spec) const {
  if (reasoning_ != nullptr) return reasoning_->Settle(spec, *this);
  return ReasoningSettings(nullptr, "").Settle(spec, *this);
}

ChatTemplate ChatTemplate::WithPromptEnd(std::string_view markup) const {
  ChatTemplate chat = *this;
  chat.prompt_end_ = markup;
  chat.reasoning_ = nullptr;  // the settings store such copies
  return chat;
}

bool ChatTemplate::WritesMessagesLike(const ChatTemplate& other) const {
  if (renders_whole() || other.renders_whole()) return false;
  if (format_ == other.format_) return true;
  TemplateFormat ours = *format_, theirs = *other.format_;
  for (TemplateFormat* format : {&ours, &theirs}) {
    format->generation_prompt.reset();
    format->name.clear();
    format->caveat.clear();
    format->kinds_anew = 0;
    format->tags.clear();
  }
  return ours == theirs;
}

const std::string& ChatTemplate::source() const {
  CHECK(whole_ != nullptr);
  return whole_->source();
}

Result<Rendering> ChatTemplate::RenderWhole(std::span<const ChatMessage> messages, bool add_generation_prompt,
                                            std::string_view tools, const Tokenizer& tokenizer) const {
  CHECK(whole_ != nullptr);
  Result<Rendering> rendering = whole_->Render(messages, add_generation_prompt, tools, tokenizer);
  if (rendering.ok()) {
    EndPrompt(prompt_end_, add_generation_prompt, &*rendering);
    return rendering;
  }
  return InvalidArgument("The model's chat template rejects this conversation: " + rendering.status().message(),
                         "input");
}

Rendering ChatTemplate::Render(std::span<const ChatMessage> messages, TimelineEnd before, bool add_generation_prompt,
                               std::string_view tools) const {
  CHECK(!renders_whole());
  Rendering rendering = RenderFormat(*format_, messages, before, add_generation_prompt, tools);
  EndPrompt(prompt_end_, add_generation_prompt, &rendering);
  return rendering;
}

Rendering RenderFormat(const TemplateFormat& format, std::span<const ChatMessage> messages, TimelineEnd before,
                       bool add_generation_prompt, std::string_view tools) {
  const bool first = before == TimelineEnd::kNothing;
  if (!first) tools = {};
  if (messages.empty() && !add_generation_prompt && tools.empty()) {
    Rendering nothing;
    nothing.end = before;
    return nothing;
  }
  const bool absent = first && BeginsWithSystem(messages) && IsAbsent(messages.front().content, format.absent_system);
  if (absent) messages = messages.subspan(1);
  const bool has_system = first && !absent && BeginsWithSystem(messages);
  Renderer renderer(format, before, tools);
  if (first) {
    renderer.BeginConversation();
    const bool tells = !tools.empty() && SyntaxOf(format.tools).place == ToolSyntax::Place::kSystemEnd;
    if (absent && tools.empty())
      renderer.EmptySystem();
    else if (!has_system && (format.default_system || tells))
      renderer.DefaultSystem();
    if (!has_system) renderer.WriteToolsInUserMessage();
  } else {
    renderer.CloseAnswer(before);
  }
  for (size_t i = 0; i < messages.size(); ++i) {
    const ChatMessage& message = messages[i];
    switch (message.role) {
      case ChatRole::kSystem:
        renderer.System(message.content, has_system && i == 0);
        if (i == 0) renderer.WriteToolsInUserMessage();
        break;
      case ChatRole::kUser:
        renderer.User(message.content);
        break;
      case ChatRole::kAssistant:
        renderer.Assistant(message);
        break;
      case ChatRole::kTool:
        renderer.Result(message);
        break;
    }
  }
  if (add_generation_prompt) renderer.OpenAnswer();
  return renderer.Take(add_generation_prompt);
}

}  // namespace ringside
