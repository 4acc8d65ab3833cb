// Which tokens may come next in a sampled answer: those that its grammar, the header of a message or the reasoning
// budget allow. Markup that must come is appended token by token as if it had been sampled ("forced"). One per turn.
// THREAD: engine.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "engine/grammar/grammar.h"
#include "engine/text/channels/answer_reader.h"
#include "engine/text/channels/channel_format.h"
#include "engine/turn_request.h"
#include "engine/turns/call_guide.h"

namespace ringside {

class AnswerConstraint {
 public:
  /// `reader`: the answer's, after the existing part of a continued answer. REQUIRES: all references outlive it.
  AnswerConstraint(const TurnRequest& request, const Tokenizer& tokenizer, int64_t vocab, AnswerReader& reader);

  /// Whether the answer can continue, or is complete.
  enum class Verdict { kContinues, kComplete };

  /// Feeds the grammar the existing part of a continued answer. ERRORS: the grammar does not accept it.
  Status Begin();
  /// Forces the end of the reasoning once `used` tokens exhaust its budget.
  void CheckBudget(int64_t used);
  /// Computes the mask of the next token. ERRORS: GrammarMatcher::FillMask's.
  Result<Verdict> FindAllowed();
  /// That mask, over the model's vocabulary; empty = all allowed.
  std::span<const uint32_t> allowed() const { return allowed_; }

  bool allows(TokenId id) const {
    return allowed_.empty() || (allowed_[static_cast<size_t>(id) / 32] >> (id % 32) & 1) != 0;
  }

  /// The state of the answer before a token.
  struct Before {
    bool forced = false;    // the token was not sampled
    bool answered = false;  // the answer had started
    bool in_call = false;   // a call had started
  };
  /// Called before the reader reads the token.
  Before Expect(TokenId id);
  /// The grammar takes what the token adds to the answer. `step`: the reader's. ERRORS: the grammar does not accept it.
  Result<Verdict> Take(TokenId id, const AnswerReader::Step& step, const Before& before);

  /// True if the grammar accepts the answer so far.
  bool may_end() const { return !matcher_ || matcher_->may_end(); }
  /// True if the masks after the next 1 .. `tokens` tokens do not depend on them. `used`: reasoning tokens so far.
  bool is_known_ahead(int64_t used, int64_t tokens) const;

 private:
  /// Take of a token in a call, or that begins or ends it.
  Result<Verdict> TakeInCall(const AnswerReader::Step& step, bool in_call);
  /// Take of a token before the answer, or of its first one.
  Status TakeBeforeAnswer(const AnswerReader::Step& step);
  Result<Verdict> FollowGrammar();
  /// Restricts the next token of a message's header. False where any may come.
  Result<bool> FollowHeader();
  /// Forbids stop tokens that would end the turn before an answer.
  void ForbidStops();
  /// Queues `markup` to be appended as if it had been sampled.
  void Force(std::string_view markup);
  void Allow(TokenId id) { allowed_[static_cast<size_t>(id) / 32] |= 1u << (id % 32); }
  void ClearMask() { allowed_.assign(allowed_words_, 0); }

  const TurnRequest& request_;
  const Tokenizer& tokenizer_;
  AnswerReader& reader_;
  const size_t allowed_words_;
  std::vector<TokenId> forced_;            // tokens to append next, in place of sampled ones
  TokenId opens_reasoning_ = -1;           // the token that opens reasoning, if there is a grammar
  std::optional<GrammarMatcher> matcher_;  // if there is a grammar
  std::optional<CallGuide> guide_;         // with recipients
  bool follows_call_ = false;              // the matcher has taken the call that has begun
  std::vector<uint32_t> allowed_;          // bit mask
};

}  // namespace ringside
