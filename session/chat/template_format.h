// A chat template as data: the strings that stand around each message, and the few rules in which families differ. Made
// by name or from a recognised Jinja source; then immutable and shared.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "session/chat/chat_template.h"

namespace ringside {

struct TemplateFormat {
  enum class SystemPlace {
    kOwnTurn,    // a message like the others
    kFirstUser,  // inside the user message that follows
  };

  std::string name;
  std::string caveat;
  std::string bos;             // in front of everything
  bool bos_each_user = false;  // ... or in front of every user message (Llama 2)

  SystemPlace system_place = SystemPlace::kOwnTurn;
  std::optional<std::string> default_system;    // the first message where no system message is
  std::string system_open, system_close;        // kFirstUser: they stand behind user_open
  std::optional<std::string> late_system_open;  // of a system message that is not the first, where it differs
  ToolSyntaxName tools = ToolSyntaxName::kHermes;
  std::optional<std::string> tools_system_open;  // system_open where tools are told, if it differs
  std::string user_open, user_close;
  std::string assistant_open;  // also the generation prompt
  // What stands between assistant_open and a given answer, and between it and end_of_turn. A model samples both itself.
  std::string answer_lead, answer_trail;
  std::string end_of_turn;
  std::string end_of_call;  // may stand in its place behind a call (Llama 3.1)
  std::string after_end;    // behind end_of_turn

  bool trim_system = false, trim_user = false, trim_assistant = false;
  bool trim_user_right_only_behind_system = false;  // system and user text are trimmed as one (Llama 2)
  bool drop_thinking = false;  // a given answer loses everything up to its last "</think>" (Qwen 3)
  std::vector<std::string> stop_strings;
};

/// The dates that Llama 3.1 and its like begin their system message with.
void SetDate(std::string_view date, TemplateFormat* llama);

/// The format of a name in ChatTemplate::Names(); nullopt for another.
std::optional<TemplateFormat> FormatByName(std::string_view name, const ChatTemplate::Facts& facts);
const std::vector<std::string_view>& FormatNames();

/// The format of a model's own Jinja source; kInvalidArgument if it is none that we know.
Result<TemplateFormat> FormatFromSource(std::string_view jinja_source, const ChatTemplate::Facts& facts);

/// Python's str.strip(), lstrip() and rstrip() of UTF-8 text.
std::string_view StripLeft(std::string_view text);
std::string_view StripRight(std::string_view text);

}  // namespace ringside
