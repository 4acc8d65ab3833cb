// A chat template as data: the strings that stand around each message, and the few rules in which families differ. Made
// by name, or learned by running a Jinja source (template_learning.h); then immutable and shared.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "session/chat/call_learning.h"
#include "session/chat/chat_template.h"

namespace ringside {

struct TemplateFormat {
  enum class SystemPlace {
    kOwnTurn,    // a message like the others
    kFirstUser,  // inside the user message that follows
  };
  /// White space that is dropped at one end of a text.
  enum class Trim { kNone, kNewlines, kAll };
  struct Trims {
    Trim left = Trim::kNone, right = Trim::kNone;
    std::string_view Of(std::string_view text) const;
    bool operator==(const Trims&) const = default;
  };
  /// Texts for which a message is written as if it had none.
  enum class NoText { kNever, kEmpty, kBlank };

  std::string name;
  std::string caveat;
  std::string bos;             // in front of everything
  bool bos_each_user = false;  // ... or in front of every user message (Llama 2)

  SystemPlace system_place = SystemPlace::kOwnTurn;
  std::optional<std::string> default_system;    // the first message where no system message is
  std::string system_open, system_close;        // kFirstUser: they stand behind user_open
  std::optional<std::string> late_system_open;  // of a system message that is not the first, where it differs
  ToolSyntaxName tools = ToolSyntaxName::kHermes;
  /// How calls are written where only the template itself renders tools: then `tools` is not used with them.
  std::optional<LearnedCalls> tools_anew = {};
  std::optional<std::string> tools_system_open;  // system_open where tools are told, if it differs
  std::string user_open, user_close;
  std::string assistant_open;
  std::optional<std::string> generation_prompt;  // what opens an answer to be sampled, if it is not assistant_open
  // What stands between assistant_open and a given answer, and between it and end_of_turn. A model samples both itself.
  std::string answer_lead, answer_trail;
  std::string end_of_turn;
  std::string end_of_call;  // may stand in its place: behind a call (Llama 3.1), or where all has been said (gpt-oss)
  std::string after_end;    // behind end_of_turn

  Trims trim_system, trim_user, trim_assistant;
  bool trim_user_right_only_behind_system = false;  // system and user text are trimmed as one (Llama 2)
  NoText absent_system = NoText::kNever;            // of the first message; written as `empty_system`
  NoText absent_answer = NoText::kNever;            // of an answer without calls; written as `empty_answer`
  std::string empty_system, empty_answer;
  bool drop_thinking = false;                  // a given answer loses everything up to its last "</think>" (Qwen 3)
  bool keep_newlines_behind_thinking = false;  // ... but not the newlines that follow (DeepSeek R1)
  std::vector<std::string> stop_strings;
  uint32_t kinds_anew = 0;        // conversations of these kinds (ConversationKind) are written otherwise
  std::vector<std::string> tags;  // of kWithTags
  std::array<std::string, 3> part_separators = {"\n", "\n", "\n"};  // between content parts, by ChatRole
  std::array<bool, 3> trims_parts = {};                             // of white space around each, by ChatRole
  /// Markup before and after the reasoning of a given answer, in place of assistant_open and answer_lead. Absent: the
  /// template drops reasoning.
  std::optional<std::pair<std::string, std::string>> reasoning;
  /// As `reasoning`, for an answer that no question follows.
  std::optional<std::pair<std::string, std::string>> current_reasoning;

  friend bool operator==(const TemplateFormat&, const TemplateFormat&) = default;
};

/// The format of a name in ChatTemplate::Names(); nullopt for another.
std::optional<TemplateFormat> FormatByName(std::string_view name, const ChatTemplate::Facts& facts);
const std::vector<std::string_view>& FormatNames();

/// True if `text` counts as none.
bool IsAbsent(std::string_view text, TemplateFormat::NoText which);

class TemplateRun;
/// TemplateRun::PartSeparator and TrimsParts of each role.
void LearnPartSeparators(const TemplateRun& run, TemplateFormat* format);
/// The format of a model's template, learned and proved by running it, with the caveats in which they differ.
/// kInvalidArgument, saying why, for one that has no format.
Result<TemplateFormat> LearnFormat(const TemplateRun& run, const ChatTemplate::Facts& facts);

/// Renders as ChatTemplate::Render does.
Rendering RenderFormat(const TemplateFormat& format, std::span<const ChatMessage> messages, TimelineEnd before,
                       bool add_generation_prompt, std::string_view tools);

}  // namespace ringside
