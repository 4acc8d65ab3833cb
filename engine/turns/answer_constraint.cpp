#include "engine/turns/answer_constraint.h"

#include <string>
#include <utility>

namespace ringside {

AnswerConstraint::AnswerConstraint(const TurnRequest& request, const Tokenizer& tokenizer, int64_t vocab,
                                   AnswerReader& reader)
    : request_(request), tokenizer_(tokenizer), reader_(reader), allowed_words_(static_cast<size_t>(vocab + 31) / 32) {
  if (request_.grammar == nullptr) return;
  request_.matcher != nullptr ? matcher_.emplace(*request_.matcher) : matcher_.emplace(request_.grammar);
  if (request_.channels == nullptr) return;
  follows_call_ = reader_.in_call();
  if (request_.recipients != nullptr) guide_.emplace(tokenizer, request_.recipients, request_.must_call);
  if (reader_.in_answer()) reader_.BeginAnswer();
  Force(request_.channels->open);
  if (forced_.size() == 1) opens_reasoning_ = forced_.front();
  forced_.clear();
  if (guide_ && reader_.channels()->in_header()) Force(guide_->Forced(*reader_.channels()));
}

Status AnswerConstraint::Begin() {
  const bool behind = matcher_ && request_.continues_answer && request_.matcher == nullptr;
  return behind ? matcher_->Append(request_.begun) : Status::Ok();
}

void AnswerConstraint::Force(std::string_view markup) {
  const TextPiece piece{std::string(markup), true};
  for (const TokenId id : tokenizer_.EncodeAll({&piece, 1})) {
    if (id >= 0 && static_cast<size_t>(id) < allowed_words_ * 32) forced_.push_back(id);
  }
}

void AnswerConstraint::CheckBudget(int64_t used) {
  const bool used_up = request_.reasoning_budget >= 0 && used >= request_.reasoning_budget;
  if (!used_up || !reader_.in_reasoning() || !forced_.empty()) return;
  if (!guide_) return Force(request_.channels->forced_close);
  Force(request_.channels->close);
  Force(guide_->NextMessage());
}

bool AnswerConstraint::is_known_ahead(int64_t used, int64_t tokens) const {
  const bool budget_ends = request_.reasoning_budget >= 0 && used + tokens >= request_.reasoning_budget;
  return !matcher_ && forced_.empty() && !(budget_ends && !reader_.in_answer());
}

Result<AnswerConstraint::Verdict> AnswerConstraint::FindAllowed() {
  allowed_.clear();
  if (!forced_.empty()) {
    ClearMask();
    Allow(forced_.front());
    return Verdict::kContinues;
  }
  if (guide_) {
    ASSIGN_OR_RETURN(const bool restricts, FollowHeader());
    if (restricts) return Verdict::kContinues;
  }
  if (!matcher_) return Verdict::kContinues;
  if ((reader_.in_answer() || reader_.undecided()) && (!reader_.in_call() || follows_call_)) {
    ASSIGN_OR_RETURN(const Verdict verdict, FollowGrammar());
    if (reader_.undecided() && opens_reasoning_ >= 0) Allow(opens_reasoning_);
    return verdict;
  }
  if (!matcher_->may_end() && !reader_.in_call()) ForbidStops();
  return Verdict::kContinues;
}

void AnswerConstraint::ForbidStops() {
  allowed_.assign(allowed_words_, ~0u);
  for (const TokenId id : request_.stop_ids) {
    const size_t word = static_cast<size_t>(id) / 32;
    if (id >= 0 && word < allowed_.size() && reader_.Ends(id)) allowed_[word] &= ~(1u << (id % 32));
  }
}

Result<bool> AnswerConstraint::FollowHeader() {
  if (!reader_.channels()->in_header()) return false;
  ClearMask();
  Result<bool> restricts = guide_->FillMask(*reader_.channels(), allowed_);
  if (restricts.ok() && !*restricts) allowed_.clear();
  return restricts;
}

Result<AnswerConstraint::Verdict> AnswerConstraint::FollowGrammar() {
  ClearMask();
  if (!matcher_->may_continue()) return Verdict::kComplete;
  RETURN_IF_ERROR(matcher_->FillMask(allowed_));
  // Stop tokens add no text to the answer, so the grammar decides by may_end alone.
  for (const TokenId id : request_.stop_ids) {
    const size_t word = static_cast<size_t>(id) / 32;
    if (id < 0 || word >= allowed_.size()) continue;
    const uint32_t bit = 1u << (id % 32);
    matcher_->may_end() ? allowed_[word] |= bit : allowed_[word] &= ~bit;
  }
  return Verdict::kContinues;
}

AnswerConstraint::Before AnswerConstraint::Expect(TokenId id) {
  Before before{.forced = !forced_.empty()};
  if (before.forced) forced_.erase(forced_.begin());
  const bool strict = !may_end();  // the grammar does not accept an empty text
  if (strict && reader_.undecided() && id != opens_reasoning_) reader_.BeginAnswer();
  before.answered = reader_.in_answer();
  before.in_call = reader_.in_call();
  return before;
}

Result<AnswerConstraint::Verdict> AnswerConstraint::Take(TokenId id, const AnswerReader::Step& step,
                                                         const Before& before) {
  if (!matcher_) return Verdict::kContinues;
  if (request_.channels == nullptr) {
    RETURN_IF_ERROR(matcher_->Take(id));
    return Verdict::kContinues;
  }
  if (before.in_call || reader_.in_call()) return TakeInCall(step, before.in_call);
  if (guide_ && forced_.empty() && reader_.channels()->in_header()) Force(guide_->Forced(*reader_.channels()));
  if (before.forced) {
    if (forced_.empty() && reader_.in_answer()) reader_.BeginAnswer();
  } else if (!before.answered) {
    RETURN_IF_ERROR(TakeBeforeAnswer(step));
  } else if (!step.answer.empty()) {
    RETURN_IF_ERROR(matcher_->Take(id));
  }
  return Verdict::kContinues;
}

Status AnswerConstraint::TakeBeforeAnswer(const AnswerReader::Step& step) {
  if (reader_.between() && !matcher_->may_end()) {
    Force(guide_ ? guide_->NextMessage() : "<|start|>assistant<|channel|>final<|message|>");
  }
  if (!reader_.in_answer()) return Status::Ok();  // or still undecided
  // The answer starts. The grammar does not cover the separator before it.
  if (!step.answer.empty()) return matcher_->Append(step.answer);
  const ChannelFormat& format = *request_.channels;
  const size_t close = format.forced_close.rfind(format.close);
  if (format.layout == ChannelFormat::Layout::kSpan && close != std::string::npos) {
    Force(std::string_view(format.forced_close).substr(close + format.close.size()));
  }
  if (forced_.empty()) reader_.BeginAnswer();
  return Status::Ok();
}

// A call's end is sampled by no grammar: its token is appended once the arguments are whole.
Result<AnswerConstraint::Verdict> AnswerConstraint::TakeInCall(const AnswerReader::Step& step, bool in_call) {
  if (!in_call) follows_call_ = matcher_->Append(step.answer).ok();  // the model may know other tools
  if (!in_call || !follows_call_) return Verdict::kContinues;
  RETURN_IF_ERROR(matcher_->Append(step.answer));
  if (!reader_.in_call() && !matcher_->may_continue()) return Verdict::kComplete;
  if (!reader_.in_call() || !step.answer.ends_with('}')) return Verdict::kContinues;
  GrammarMatcher ended(*matcher_);
  if (ended.Append(request_.channels->call_close).ok()) Force("<|call|>");
  return Verdict::kContinues;
}

}  // namespace ringside
