#include "engine/text/channels/continued_answer.h"

#include <string>
#include <string_view>

namespace ringside {
namespace {

std::string_view Spelling(TokenId id, const Tokenizer& tokenizer) {
  return tokenizer.IsSpecial(id) ? tokenizer.TokenName(id) : tokenizer.TokenBytes(id);
}

}  // namespace

ContinuedAnswer ContinueAnswer(const ChannelFormat& format, std::span<const TokenId> message, bool answered,
                               const Tokenizer& tokenizer) {
  using Start = ChannelFormat::Start;
  ChannelFormat behind = format;
  ContinuedAnswer continued;
  if (format.layout == ChannelFormat::Layout::kMessages) {
    // A message's header names its channel.
    behind.start = Start::kUndecided;
    continued.begun.assign(message.begin(), message.end());
  } else if (answered) {
    behind.start = Start::kAnswer;
  } else {
    std::string text;
    std::vector<size_t> ends;  // end of each token in the text
    for (const TokenId id : message) ends.push_back((text += Spelling(id, tokenizer)).size());
    const size_t open = text.rfind(format.open), close = text.rfind(format.close);
    const bool opened = open != text.npos, closed = close != text.npos && (!opened || open < close);
    behind.start = closed ? Start::kAnswer : opened ? Start::kReasoning : Start::kUndecided;
    for (size_t i = 0; behind.start == Start::kReasoning && i < message.size(); ++i) {
      if (ends[i] > open + format.open.size()) continued.begun.push_back(message[i]);
    }
  }
  continued.channels = std::make_shared<const ChannelFormat>(std::move(behind));
  return continued;
}

}  // namespace ringside
