// Converts sampled ids to text per channel and detects the end of the answer. Copies are independent (beams). One per
// answer. THREAD: one at a time.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/text/channels/channel_reader.h"
#include "engine/text/detokenizer.h"
#include "engine/text/stop_rule.h"

namespace ringside {

class AnswerReader {
 public:
  /// `at_start`: see Detokenizer. `channels`: null = all text is the answer. REQUIRES: `tokenizer` outlives it.
  AnswerReader(const Tokenizer& tokenizer, bool at_start, std::shared_ptr<const ChannelFormat> channels,
               StopRule stop_rule);

  struct Step {
    std::string reasoning, text;   // safe to show now, in this order
    bool stop = false;             // the answer ends here
    std::string matched;           // the stop string that ended it; "" for an id
    bool reasoning_token = false;  // the token is reasoning or channel markup; false while undecided()
    std::string answer;            // all text that the token adds to the answer, stop strings included
  };
  Step Push(TokenId id);
  /// The answer ended for another reason. Returns the held-back text.
  Step Finish();
  /// Replays the ids of a continued answer and discards their text. Returns the number of reasoning tokens.
  int64_t Replay(std::span<const TokenId> begun);

  bool in_answer() const { return !reader_ || reader_->in_answer(); }
  /// True once the answer has started, even if markup follows.
  bool answer_begun() const { return !reader_ || answer_begun_; }
  /// Null where all text is the answer.
  const ChannelReader* channels() const { return reader_ ? &*reader_ : nullptr; }
  bool in_reasoning() const { return reader_ && reader_->in_reasoning(); }
  bool in_call() const { return reader_ && reader_->in_call(); }
  bool between() const { return reader_ && reader_->between(); }
  bool undecided() const { return reader_ && reader_->undecided(); }
  /// See ChannelReader.
  void BeginAnswer() {
    if (reader_) reader_->BeginAnswer();
  }
  /// True if the token, when it is a stop id, ends the turn.
  bool Ends(TokenId id) const;

 private:
  const Tokenizer* tokenizer_;
  Detokenizer detokenizer_;
  std::optional<ChannelReader> reader_;
  bool answer_begun_ = false;
  StopRule stop_rule_;
};

}  // namespace ringside
