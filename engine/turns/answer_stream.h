// The streamed text of an answer: converts its tokens to text per channel, holds back undecided text, and sends the
// rest to the turn's sink. One per turn. THREAD: engine.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/text/channels/answer_reader.h"
#include "engine/token_sink.h"
#include "engine/turn_request.h"

namespace ringside {

class AnswerStream {
 public:
  /// Reads the existing part of a continued answer. REQUIRES: `tokenizer` outlives it.
  AnswerStream(const TurnRequest& request, const Tokenizer& tokenizer);

  AnswerReader& reader() { return reader_; }
  const AnswerReader& reader() const { return reader_; }
  /// Reasoning tokens so far, with the earlier part of a continued answer.
  int64_t budget_used() const { return budget_used_; }
  /// Arrival of the last reasoning token; 0 = none.
  int64_t reasoned_until_ns() const { return reasoned_until_ns_; }

  /// The next tokens have arrived now.
  void NoteArrival(int64_t now_ns) { taken_ns_ = now_ns; }
  /// Sends the token and its text to the sink, once its channel is known. `step`: reader().Push's.
  void Emit(const OutputToken& token, const AnswerReader::Step& step, TokenSink& sink);
  /// Sends held-back text, and fills in the stop, the reasoning tokens and whether the answer was reached. `answers`:
  /// the turn has an answer. Call once.
  void Finish(bool answers, TokenSink& sink, TurnEnd* end);

 private:
  AnswerReader reader_;
  const bool has_channels_;
  std::vector<OutputToken> undecided_;  // tokens whose channel is not known yet
  std::optional<OutputToken> stop_token_;
  std::string stop_string_;
  int64_t taken_ns_ = 0;           // arrival of the last token
  int64_t reasoned_until_ns_ = 0;  // arrival of the last reasoning token
  int64_t reasoning_tokens_ = 0;   // in this turn
  int64_t budget_used_ = 0;
};

}  // namespace ringside
