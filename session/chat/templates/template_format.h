// A chat template as data: the strings around each message, and the rules in which families differ. Selected by name,
// or learned by running a Jinja source (template_learning.h); then immutable and shared.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "session/chat/templates/call_learning.h"
#include "session/chat/templates/chat_template.h"

namespace ringside {

struct TemplateFormat {
  enum class SystemPlace {
    kOwnTurn,    // a message like the others
    kFirstUser,  // inside the following user message
  };
  /// White space removed at one end of a text.
  enum class Trim { kNone, kNewlines, kAll };
  struct Trims {
    Trim left = Trim::kNone, right = Trim::kNone;
    std::string_view Of(std::string_view text) const;
    bool operator==(const Trims&) const = default;
  };
  /// Texts that are rendered like a missing text.
  enum class NoText { kNever, kEmpty, kBlank };

  std::string name;
  std::string caveat;
  std::string bos;             // before everything
  bool bos_each_user = false;  // or before every user message (Llama 2)

  SystemPlace system_place = SystemPlace::kOwnTurn;
  std::optional<std::string> default_system;    // first message if there is no system message
  std::string system_open, system_close;        // kFirstUser: placed after user_open
  std::optional<std::string> late_system_open;  // of a system message that is not the first, if different
  ToolSyntaxName tools = ToolSyntaxName::kHermes;
  /// How calls are written if only the template itself renders tools: `tools` is then not used with them.
  std::optional<LearnedCalls> tools_whole = {};
  std::optional<std::string> tools_system_open;  // system_open with tools, if different
  std::string user_open, user_close;
  std::string assistant_open;
  std::optional<std::string> generation_prompt;  // opens an answer to be sampled, if different from assistant_open
  // Text between assistant_open and a given answer, and between it and end_of_turn. A model samples both itself.
  std::string answer_lead, answer_trail;
  std::string end_of_turn;
  std::string end_of_call;  // replaces it after a call (Llama 3.1), or at the end of everything (gpt-oss)
  std::string after_end;    // after end_of_turn

  Trims trim_system, trim_user, trim_assistant;
  bool trim_user_right_only_after_system = false;  // system and user text are trimmed as one (Llama 2)
  NoText absent_system = NoText::kNever;           // of the first message; rendered as `empty_system`
  NoText absent_answer = NoText::kNever;           // of an answer without calls; rendered as `empty_answer`
  std::string empty_system, empty_answer;
  // removes everything up to the last "</think>" of a given answer (Qwen 3)
  bool drop_thinking = false;
  bool keep_newlines_after_thinking = false;  // but not the newlines after it (DeepSeek R1)
  std::vector<std::string> stop_strings;
  uint32_t kinds_anew = 0;        // conversations of these kinds (ConversationKind) are written otherwise
  std::vector<std::string> tags;  // of kWithTags
  std::array<std::string, 3> part_separators = {"\n", "\n", "\n"};  // between content parts, by ChatRole
  std::array<bool, 3> trims_parts = {};                             // of white space around each, by ChatRole
  /// Markup before and after the reasoning of a given answer, in place of assistant_open and answer_lead. Absent: the
  /// template drops reasoning.
  std::optional<std::pair<std::string, std::string>> reasoning;
  /// As `reasoning`, for an answer without a later question.
  std::optional<std::pair<std::string, std::string>> current_reasoning;

  friend bool operator==(const TemplateFormat&, const TemplateFormat&) = default;
  std::string image_markup = {};  // as in ChatTemplate
};

/// Returns the format of a name in ChatTemplate::Names(); nullopt for other names.
std::optional<TemplateFormat> FormatByName(std::string_view name, const ChatTemplate::Facts& facts);
const std::vector<std::string_view>& FormatNames();

/// True if `text` counts as absent.
bool IsAbsent(std::string_view text, TemplateFormat::NoText which);

class TemplateRun;
/// TemplateRun::PartSeparator and TrimsParts of each role, and TemplateRun::ImageMarkup.
void LearnPartSeparators(const TemplateRun& run, TemplateFormat* format);
/// Learns the format of a model's template and verifies it by running the template, with caveats where they differ.
/// ERRORS: kInvalidArgument with the reason for a template without a format.
Result<TemplateFormat> LearnFormat(const TemplateRun& run, const ChatTemplate::Facts& facts);

/// Renders as ChatTemplate::Render does.
Rendering RenderFormat(const TemplateFormat& format, std::span<const ChatMessage> messages, TimelineEnd before,
                       bool add_generation_prompt, std::string_view tools);

}  // namespace ringside
