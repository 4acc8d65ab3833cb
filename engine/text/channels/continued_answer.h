// The channel that the ids of a cut answer have reached. Pure.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "engine/text/channels/channel_format.h"
#include "engine/text/tokenizer.h"

namespace ringside {

/// Channels of a continued answer, and the ids that its reader reads first (AnswerReader::Replay).
struct ContinuedAnswer {
  std::shared_ptr<const ChannelFormat> channels;
  std::vector<TokenId> begun;
};

/// `message`: the answer's ids so far, its generation prompt included. `answered`: the answer has text already.
ContinuedAnswer ContinueAnswer(const ChannelFormat& format, std::span<const TokenId> message, bool answered,
                               const Tokenizer& tokenizer);

}  // namespace ringside
