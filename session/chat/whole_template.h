// A chat template that has no format (template_format.h): what it writes of earlier messages depends on later ones, or
// on what a system message says. It is run anew on the whole conversation in every turn, in the sandbox, with work and
// memory in proportion to what was said. Immutable; any thread.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/status.h"
#include "engine/text/tokenizer.h"
#include "session/chat/template_format.h"
#include "session/chat/template_run.h"

namespace ringside {

class WholeTemplate {
 public:
  /// kInvalidArgument, saying why, where it does not write a question, its answer and the next question once each and
  /// in this order, or nothing ends an answer.
  static Result<WholeTemplate> Learn(TemplateRun run, const ChatTemplate::Facts& facts);
  /// One that writes what an encoder reads: nothing opens an answer, and facts.eos ends it. kInvalidArgument, too,
  /// where there is no such token.
  static Result<WholeTemplate> LearnInput(TemplateRun run, const ChatTemplate::Facts& facts);

  /// Of a whole conversation; `messages` is not empty. One message start for each message, each behind what ends the
  /// one before it, and one for the answer that is opened. What stands before the first that is no system message is
  /// pinned. Special tokens of `tokenizer` that messages spell are no markup. kInvalidArgument, in the template's
  /// words, for messages that it refuses.
  Result<Rendering> Render(std::span<const ChatMessage> messages, bool add_generation_prompt, std::string_view tools,
                           const Tokenizer& tokenizer) const;

  const std::string& source() const { return run_.source(); }
  bool writes_calls() const { return writes_calls_; }
  /// Its fields of a format: how answers open and end, and how content parts are joined.
  TemplateFormat Ends() const;

 private:
  Status LearnMessages();
  WholeTemplate(TemplateRun run, ChatTemplate::Facts facts) : run_(std::move(run)), facts_(std::move(facts)) {}

  std::string_view Open(ChatRole role) const;
  std::pair<size_t, size_t> FindMessage(std::string_view text, size_t at, std::string_view open,
                                        std::string_view content) const;

  TemplateRun run_;
  ChatTemplate::Facts facts_;
  std::string question_open_, answer_open_;  // between what ends a message and the next one's text
  std::string generation_prompt_;            // what opens an answer to be sampled
  std::string end_of_turn_;
  bool writes_calls_ = false;  // from message.tool_calls; else they are told as the text that they are
};

}  // namespace ringside
