#include "engine/turns/answer_stream.h"

#include <utility>

namespace ringside {

AnswerStream::AnswerStream(const TurnRequest& request, const Tokenizer& tokenizer)
    : reader_(tokenizer, /*at_start=*/!request.continues_answer, request.channels,
              StopRule(request.stop_strings, request.stop_ids, request.sampling.min_tokens)),
      has_channels_(request.channels != nullptr),
      budget_used_(has_channels_ ? reader_.Replay(request.begun_ids) : 0) {}

void AnswerStream::Emit(const OutputToken& token, const AnswerReader::Step& step, TokenSink& sink) {
  if (step.stop) stop_string_ = step.matched;
  if (step.stop && step.matched.empty()) {
    stop_token_ = token;
  } else {
    undecided_.push_back(token);
  }
  const auto tokens = std::ssize(undecided_) + (stop_token_ ? 1 : 0);
  if (reader_.undecided() && !step.stop) return;
  TokenDelta delta{.tokens = std::exchange(undecided_, {}), .text = step.text, .reasoning = step.reasoning};
  delta.reasoning_ended = has_channels_ && reader_.in_answer();
  if (step.reasoning_token) {
    delta.reasoning_tokens = std::ssize(delta.tokens);
    reasoning_tokens_ += tokens;
    budget_used_ += tokens;
    reasoned_until_ns_ = taken_ns_;
  }
  sink.OnTokens(delta);
}

void AnswerStream::Finish(bool answers, TokenSink& sink, TurnEnd* end) {
  end->stop_string = stop_string_;
  end->stop_token = stop_token_;
  // A stop string removes the held-back text; any other end emits it, even an incomplete character.
  AnswerReader::Step rest = stop_string_.empty() ? reader_.Finish() : AnswerReader::Step();
  if (!rest.text.empty() || !rest.reasoning.empty() || !undecided_.empty()) {
    sink.OnTokens({.tokens = std::exchange(undecided_, {}),
                   .text = std::move(rest.text),
                   .reasoning = std::move(rest.reasoning)});
  }
  end->reasoning_tokens = reasoning_tokens_;
  end->cut_in_reasoning = answers && !reader_.answer_begun() && !reader_.undecided();
}

}  // namespace ringside
