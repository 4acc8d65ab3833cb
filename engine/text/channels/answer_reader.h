// Turns sampled ids into text per channel and finds the end of the answer. Copies are
// independent (beams). One per answer; one thread at a time.
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
  /// `tokenizer` must outlive it. `at_start`: see Detokenizer. `channels`: null = all text is the answer.
  AnswerReader(const Tokenizer& tokenizer, bool at_start, std::shared_ptr<const ChannelFormat> channels,
               StopRule stop_rule);

  struct Step {
    std::string reasoning, text;   // may be shown now, in this order
    bool stop = false;             // the answer ends here
    std::string matched;           // the stop string that ended it; "" for an id
    bool reasoning_token = false;  // the token is reasoning, or markup of channels; false while undecided()
    std::string answer;            // all that the token adds to the answer, stop strings included
  };
  Step Push(TokenId id);
  /// The answer ended for another reason. Returns the text held back.
  Step Finish();
  /// Reads the earlier ids of a continued answer and discards their text. Returns the number of reasoning tokens.
  int64_t Replay(std::span<const TokenId> begun);

  bool in_answer() const { return !reader_ || reader_->in_answer(); }
  /// The answer has begun, even if markup follows it.
  bool answer_begun() const { return !reader_ || answer_begun_; }
  bool in_reasoning() const { return reader_ && reader_->in_reasoning(); }
  bool in_call() const { return reader_ && reader_->in_call(); }
  bool between() const { return reader_ && reader_->between(); }
  bool undecided() const { return reader_ && reader_->undecided(); }
  /// See ChannelReader.
  void BeginAnswer() {
    if (reader_) reader_->BeginAnswer();
  }
  /// Whether the token ends the turn where it is one of the stop ids.
  bool Ends(TokenId id) const;

 private:
  const Tokenizer* tokenizer_;
  Detokenizer detokenizer_;
  std::optional<ChannelReader> reader_;
  bool answer_begun_ = false;
  StopRule stop_rule_;
};

}  // namespace ringside
