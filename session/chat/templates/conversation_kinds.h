// Kinds of conversations that a format (template_format.h) may write otherwise than the template that it was learned
// from: those are rendered by the template itself. Pure; one thread at a time.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "session/chat/templates/chat_template.h"

namespace ringside {

/// Bits; a conversation may be of several kinds.
enum ConversationKind : uint32_t {
  kWithSystem = 1 << 0,         // it begins with a system message
  kWithLateSystem = 1 << 1,     // another message is a system message
  kOutOfTurn = 1 << 2,          // questions and answers do not alternate
  kWithTools = 1 << 3,          // tools are told or called
  kWithThinking = 1 << 4,       // an answer's text has thinking in tags
  kWithReasoning = 1 << 5,      // an answer has reasoning that was not sampled here
  kWithTags = 1 << 6,           // a text has one of the format's tags
  kBlankBehindSystem = 1 << 7,  // a question without a text follows the first system message
};

/// Finds the kinds of a conversation, a message at a time.
class KindReader {
 public:
  /// `tags` outlives the reader.
  KindReader(std::span<const std::string> tags, bool tells_tools)
      : tags_(tags), kinds_(tells_tools ? uint32_t{kWithTools} : 0) {}

  struct Message {
    ChatRole role;
    std::string_view text;  // without calls
    bool calls = false, reasoning = false;
  };
  void Add(const Message& message);
  /// `opens_answer`: an answer follows the last message.
  uint32_t Kinds(bool opens_answer) const {
    return kinds_ | (opens_answer && begun_ && !asked_ ? uint32_t{kOutOfTurn} : 0);
  }

 private:
  std::span<const std::string> tags_;
  uint32_t kinds_;
  bool begun_ = false;          // there was a message
  bool behind_system_ = false;  // the last one was the first system message
  bool asked_ = false;          // a question, or what a tool gave, waits for an answer
};

}  // namespace ringside
