// A chat template without a format (template_format.h): its rendering of earlier messages depends on later ones, or on
// the contents of a system message. It runs on the whole conversation each turn, in the sandbox, with work and memory
// in proportion to the conversation. Immutable.
// THREAD: any.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/status.h"
#include "engine/text/tokenizer.h"
#include "session/chat/templates/template_format.h"
#include "session/chat/templates/template_run.h"

namespace ringside {

class WholeTemplate {
 public:
  /// ERRORS: kInvalidArgument with the reason if the template does not render a question, its answer and the next
  /// question once each in this order, or has no token that ends an answer.
  static Result<WholeTemplate> Learn(TemplateRun run, const ChatTemplate::Facts& facts);
  /// For the input of an encoder: nothing opens an answer, and facts.eos ends it.
  /// ERRORS: kInvalidArgument also if there is no such token.
  static Result<WholeTemplate> LearnInput(TemplateRun run, const ChatTemplate::Facts& facts);

  /// Renders a whole conversation. One message start per message, after the end of the previous one, and one for the
  /// opened answer. Everything before the first message that is not the system's is pinned. Special tokens of
  /// `tokenizer` in the messages' texts are not markup.
  /// REQUIRES: `messages` is not empty.
  /// ERRORS: kInvalidArgument, with the template's text, for messages that it rejects.
  Result<Rendering> Render(std::span<const ChatMessage> messages, bool add_generation_prompt, std::string_view tools,
                           const Tokenizer& tokenizer) const;

  /// Places message starts where `format`, learned from the same template, places them. Two renderings of a common
  /// beginning then share their cache.
  void FindMessagesBy(const TemplateFormat& format);

  const std::string& source() const { return run_.source(); }
  bool writes_calls() const { return writes_calls_; }
  /// The fields that a format would have: how answers start and end, and how content parts are joined.
  TemplateFormat Ends() const;

 private:
  Status LearnMessages();
  WholeTemplate(TemplateRun run, ChatTemplate::Facts facts) : run_(std::move(run)), facts_(std::move(facts)) {}

  /// Markup before and after the text of a message.
  struct Markup {
    std::string open, close;
  };
  const Markup& MarkupOf(ChatRole role) const;
  size_t AfterClose(std::string_view text, size_t at, ChatRole role) const;
  size_t StartOfAnswer(std::string_view text, size_t at) const;
  std::pair<size_t, size_t> FindMessage(std::string_view text, size_t at, std::string_view open,
                                        std::string_view content) const;

  TemplateRun run_;
  ChatTemplate::Facts facts_;
  // `open` is the markup between the end of the previous message and the text. `close` is known from a format only.
  Markup system_, question_, answer_, other_;
  std::string generation_prompt_;  // opens an answer to be sampled
  std::string end_of_turn_;
  bool writes_calls_ = false;  // the template renders message.tool_calls; otherwise calls are rendered as text
};

}  // namespace ringside
