#include "engine/text/channels/answer_reader.h"

#include <utility>

namespace ringside {
namespace {

constexpr TokenId kNoId = -1;  // never a stop id

void Add(ChannelParts more, ChannelParts* parts) {
  parts->reasoning += more.reasoning;
  parts->text += more.text;
}

}  // namespace

AnswerReader::AnswerReader(const Tokenizer& tokenizer, bool at_start, std::shared_ptr<const ChannelFormat> channels,
                           StopRule stop_rule)
    : tokenizer_(&tokenizer), detokenizer_(tokenizer, at_start), stop_rule_(std::move(stop_rule)) {
  if (channels == nullptr) return;
  reader_.emplace(std::move(channels));
  answer_begun_ = reader_->in_answer();
}

bool AnswerReader::Ends(TokenId id) const {
  return !reader_ || !tokenizer_->IsSpecial(id) || !reader_->Continues(tokenizer_->TokenName(id));
}

AnswerReader::Step AnswerReader::Push(TokenId id) {
  if (!reader_) {
    StopRule::Verdict verdict = stop_rule_.Push(id, detokenizer_.Push(id));
    return {.text = std::move(verdict.text), .stop = verdict.stop, .matched = std::move(verdict.matched)};
  }
  const bool was_answer = in_answer(), was_undecided = undecided(), ends = Ends(id);
  const bool special = tokenizer_->IsSpecial(id) && tokenizer_->TokenBytes(id).empty();
  ChannelParts parts;
  StopRule::Verdict verdict;
  if (special) {
    Add(reader_->Push(detokenizer_.Finish()), &parts);  // an incomplete character ends at a marker
    Add(reader_->PushSpecial(tokenizer_->TokenName(id)), &parts);
    // A marker may end both a call and the answer; show the text it adds, too.
    if (!parts.text.empty()) verdict = stop_rule_.Push(kNoId, parts.text);
    if (!verdict.stop) {
      StopRule::Verdict by_id = stop_rule_.Push(ends ? id : kNoId, "");
      by_id.text.insert(0, verdict.text);
      verdict = std::move(by_id);
    }
  } else {
    Add(reader_->Push(detokenizer_.Push(id)), &parts);
    verdict = stop_rule_.Push(id, parts.text);
    if (verdict.stop && verdict.matched.empty()) parts = {};
  }
  answer_begun_ |= reader_->in_answer();
  const bool is_answer = was_answer || (was_undecided && (undecided() || in_answer()) && parts.reasoning.empty());
  return {.reasoning = std::move(parts.reasoning),
          .text = std::move(verdict.text),
          .stop = verdict.stop,
          .matched = std::move(verdict.matched),
          .reasoning_token = !is_answer,
          .answer = std::move(parts.text)};
}

AnswerReader::Step AnswerReader::Finish() {
  Step step;
  if (!reader_) {
    step.text = stop_rule_.Finish() + detokenizer_.Finish();
    return step;
  }
  ChannelParts parts = reader_->Push(detokenizer_.Finish());
  Add(reader_->Finish(), &parts);
  StopRule::Verdict verdict = stop_rule_.Push(kNoId, std::move(parts.text));
  step.reasoning = std::move(parts.reasoning);
  step.text = std::move(verdict.text);
  step.matched = std::move(verdict.matched);
  if (!verdict.stop) step.text += stop_rule_.Finish();
  return step;
}

int64_t AnswerReader::Replay(std::span<const TokenId> begun) {
  int64_t reasoning = 0;
  if (!reader_) return reasoning;
  StopRule stop_rule = std::exchange(stop_rule_, StopRule({}, {}));
  int64_t held = 0;  // tokens whose channel is not known yet
  for (const TokenId id : begun) {
    const bool is_reasoning = Push(id).reasoning_token;
    ++held;
    if (!undecided()) reasoning += is_reasoning ? std::exchange(held, 0) : 0;
    if (!undecided()) held = 0;
  }
  stop_rule_ = std::move(stop_rule);
  (void)detokenizer_.Finish();
  reader_->ForgetHeld();
  return reasoning;
}

}  // namespace ringside
