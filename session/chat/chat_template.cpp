#include "session/chat/chat_template.h"

#include <algorithm>

#include "session/chat/template_format.h"

namespace ringside {
namespace {

// How tools are told and what they gave is written: words that models were trained on.
constexpr std::string_view kBeforeTools =
    "# Tools\n\nYou may call one or more functions to assist with the user query.\n\n"
    "You are provided with function signatures within <tools></tools> XML tags:\n<tools>\n";
constexpr std::string_view kBehindTools =
    "\n</tools>\n\nFor each function call, return a json object with function name and arguments within "
    "<tool_call></tool_call> XML tags:\n<tool_call>\n{\"name\": <function-name>, \"arguments\": "
    "<args-json-object>}\n</tool_call>";
constexpr std::string_view kBeforeResult = "<tool_response>\n", kBehindResult = "\n</tool_response>";

std::string_view Strip(std::string_view text) { return StripRight(StripLeft(text)); }

// Writes one rendering; see ChatTemplate::Render for the order of things.
class Renderer {
 public:
  Renderer(const TemplateFormat& format, TimelineEnd before)
      : format_(format),
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

  /// `first`: the conversation's first message, which is pinned. Without content it tells the tools alone.
  void System(std::optional<std::string_view> text, bool first, std::string_view tools) {
    std::string_view content = text.value_or("");
    if (format_.trim_system) content = Strip(content);
    CloseResults();
    if (format_.system_place == TemplateFormat::SystemPlace::kFirstUser) {
      OpenUser();
      Markup(format_.system_open);
    } else {
      Start();
      Markup(first ? format_.system_open : format_.late_system_open.value_or(format_.system_open));
    }
    Content(content);
    if (!tools.empty()) {
      Markup((text ? "\n\n" : "") + std::string(kBeforeTools));
      Content(tools);
      Markup(std::string(kBehindTools));
    }
    Markup(format_.system_close);
    if (first) Pin();
  }

  void User(std::string_view content) {
    CloseResults();
    const bool behind_system = user_open_;
    OpenUser();
    if (format_.trim_user) {
      const bool keep_left = behind_system && format_.trim_user_right_only_behind_system;
      content = keep_left ? StripRight(content) : Strip(content);
      if (keep_left && content.empty() && !out_.pieces.empty()) TrimLastPiece();
    }
    Content(content);
    CloseUser();
  }

  /// What a tool gave. Results that follow one another share a user message.
  void Result(std::string_view content) {
    OpenUser();
    if (results_open_) Markup("\n");
    results_open_ = true;
    Markup(std::string(kBeforeResult));
    Content(content);
    Markup(std::string(kBehindResult));
  }

  void Assistant(const ChatMessage& message) {
    CloseUser();
    std::string_view content = message.content;
    if (format_.drop_thinking) {
      constexpr std::string_view kEnd = "</think>";
      const std::string_view text = content.substr(0, static_cast<size_t>(message.calls_at));
      if (const size_t end = text.rfind(kEnd); end != std::string_view::npos) {
        content.remove_prefix(end + kEnd.size());
        content.remove_prefix(std::min(content.find_first_not_of('\n'), content.size()));
      }
    }
    Start();
    Markup(format_.assistant_open + format_.answer_lead);
    Content(format_.trim_assistant ? Strip(content) : content);
    Markup(format_.answer_trail + format_.end_of_turn + format_.after_end);
  }

  void OpenAnswer() {
    CloseUser();
    Start();
    Markup(format_.assistant_open);
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
    Markup(format_.user_open);
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
  const bool first_;
  bool user_open_, results_open_;
  Rendering out_;
};

}  // namespace

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
  ASSIGN_OR_RETURN(TemplateFormat format, FormatFromSource(jinja_source, facts));
  return ChatTemplate(std::make_shared<const TemplateFormat>(std::move(format)));
}

Result<ChatTemplate> ChatTemplate::Named(std::string_view name, const Facts& facts) {
  std::optional<TemplateFormat> format = FormatByName(name, facts);
  if (format) return ChatTemplate(std::make_shared<const TemplateFormat>(*std::move(format)));
  std::string choices;
  for (const std::string_view known : FormatNames()) choices += (choices.empty() ? "" : ", ") + std::string(known);
  return InvalidArgument("unknown chat template '" + std::string(name) + "': one of " + choices);
}

std::vector<std::string_view> ChatTemplate::Names() { return FormatNames(); }
const std::string& ChatTemplate::name() const { return format_->name; }
const std::string& ChatTemplate::caveat() const { return format_->caveat; }
const std::string& ChatTemplate::end_of_turn() const { return format_->end_of_turn; }
const std::string& ChatTemplate::assistant_open() const { return format_->assistant_open; }
const std::vector<std::string>& ChatTemplate::stop_strings() const { return format_->stop_strings; }

Rendering ChatTemplate::Render(std::span<const ChatMessage> messages, TimelineEnd before, bool add_generation_prompt,
                               std::string_view tools) const {
  const bool first = before == TimelineEnd::kNothing;
  if (!first) tools = {};
  if (messages.empty() && !add_generation_prompt && tools.empty()) {
    Rendering nothing;
    nothing.end = before;
    return nothing;
  }
  Renderer renderer(*format_, before);
  if (first) {
    renderer.BeginConversation();
    const bool has_system = !messages.empty() && messages.front().role == ChatRole::kSystem;
    if (!has_system && (format_->default_system || !tools.empty())) {
      renderer.System(format_->default_system, true, tools);
    }
  } else {
    renderer.CloseAnswer(before);
  }
  for (size_t i = 0; i < messages.size(); ++i) {
    const ChatMessage& message = messages[i];
    switch (message.role) {
      case ChatRole::kSystem:
        renderer.System(message.content, first && i == 0, i == 0 ? tools : std::string_view());
        break;
      case ChatRole::kUser:
        renderer.User(message.content);
        break;
      case ChatRole::kAssistant:
        renderer.Assistant(message);
        break;
      case ChatRole::kTool:
        renderer.Result(message.content);
        break;
    }
  }
  if (add_generation_prompt) renderer.OpenAnswer();
  return renderer.Take(add_generation_prompt);
}

}  // namespace ringside
