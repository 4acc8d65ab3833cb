// Runs a model's chat template on whole conversations, as transformers does. Immutable, cheap to copy.
// THREAD: any.
#pragma once

#include <ctime>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/status.h"
#include "engine/grammar/tools/tool_syntax.h"
#include "session/chat/jinja/template.h"
#include "session/chat/templates/chat_template.h"
#include "session/chat/templates/json_value.h"

namespace ringside {

/// How a template gets tool calls.
struct CallForm {
  bool text_arguments = false;  // as JSON text, not as an object
  /// It writes no calls: they are the end of the message's text, in this syntax.
  std::optional<ToolSyntaxName> in_text = {};
  friend bool operator==(const CallForm&, const CallForm&) = default;
};

class TemplateRun {
 public:
  /// ERRORS: kInvalidArgument, with the fault and its line, for a source that cannot run here.
  static Result<TemplateRun> FromSource(std::string_view jinja_source, const ChatTemplate::Facts& facts);

  /// Renders messages. `tools`: one line of JSON per tool, "" = none. `change` is applied to every text from outside
  /// before the template reads it, including names and values of tools and calls.
  /// ERRORS: kInvalidArgument if the template fails or raises.
  Result<std::string> Text(std::span<const ChatMessage> messages, bool add_generation_prompt,
                           std::string_view tools = {}, const TextChange& change = nullptr) const;
  /// Returns a copy with more variables: the members of a JSON object.
  /// ERRORS: kInvalidArgument for other text.
  Result<TemplateRun> With(std::string_view variables) const;
  /// As Text, on another date.
  Result<std::string> TextOnAnotherDay(std::span<const ChatMessage> messages) const;
  /// Separator of two content parts of a message with this role; "\n" if the template does not iterate over parts.
  std::string PartSeparator(ChatRole role) const;
  /// Whether it drops the white space around each of them.
  bool TrimsParts(ChatRole role) const;
  /// Text that it writes for an image between two texts of a user's message; "" if it fails.
  std::string ImageMarkup() const;
  const std::string& source() const { return source_; }
  void set_call_form(const CallForm& form) { call_form_ = form; }

 private:
  TemplateRun(std::string_view source, jinja::Template parsed, ChatTemplate::Facts facts, const std::tm& today)
      : source_(source), template_(std::move(parsed)), facts_(std::move(facts)), today_(today) {}

  Result<std::string> TextOfParts(ChatRole role, std::initializer_list<std::string> texts) const;

  std::string source_;
  jinja::Template template_;
  ChatTemplate::Facts facts_;
  std::tm today_;
  jinja::Variables more_;  // in addition to those of every template
  CallForm call_form_;
};

}  // namespace ringside
