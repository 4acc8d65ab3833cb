// The channel state of a truncated answer, from its ids. Pure.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "engine/text/channels/channel_format.h"
#include "engine/text/tokenizer.h"

namespace ringside {

/// The channels of a continued answer, and the ids to replay (AnswerReader::Replay).
struct ContinuedAnswer {
  std::shared_ptr<const ChannelFormat> channels;
  std::vector<TokenId> begun;
};

/// `message`: the answer's ids so far, including its generation prompt. `answered`: the answer already has text.
ContinuedAnswer ContinueAnswer(const ChannelFormat& format, std::span<const TokenId> message, bool answered,
                               const Tokenizer& tokenizer);

}  // namespace ringside
