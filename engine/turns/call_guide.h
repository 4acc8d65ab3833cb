// Headers of messages in harmony's layout, in an answer whose tool calls follow a grammar: a recipient is one of the
// tools, and an answer that must call has no final message. THREAD: one turn's.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "engine/grammar/grammar.h"
#include "engine/text/channels/channel_reader.h"
#include "engine/text/tokenizer.h"

namespace ringside {

class CallGuide {
 public:
  /// `recipients`: what a header may name, "functions.NAME".
  CallGuide(const Tokenizer& tokenizer, std::shared_ptr<const Grammar> recipients, bool must_call)
      : tokenizer_(&tokenizer), recipients_(std::move(recipients)), must_call_(must_call) {}

  /// The message that follows one, where an answer must follow.
  std::string_view NextMessage() const {
    return must_call_ ? "<|start|>assistant<|channel|>commentary to=" : "<|start|>assistant<|channel|>final<|message|>";
  }
  /// Markup that must come next in the header; "" = none.
  std::string_view Forced(const ChannelReader& reader) const;
  /// Sets the bits of tokens that may come next in the header, in a mask of cleared bits. False: any may.
  /// ERRORS: GrammarMatcher::FillMask's.
  Result<bool> FillMask(const ChannelReader& reader, std::span<uint32_t> mask) const;

 private:
  /// Allows the first token of a text.
  void Allow(std::string_view text, std::span<uint32_t> mask) const;

  const Tokenizer* tokenizer_;
  std::shared_ptr<const Grammar> recipients_;
  bool must_call_;
};

}  // namespace ringside
