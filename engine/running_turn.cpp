#include "engine/running_turn.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace ringside {

void RunningTurn::Begin(Sequence* sequence, const SyncResult& sync, const Tokenizer& tokenizer, int64_t vocab,
                        int64_t session_len, int64_t now_ns) {
  sequence_ = sequence;
  request_.forked_from = 0;  // its cache is its own now
  session_len_ = session_len;
  prompt_tokens_ = request_.tokens.size();
  if (request_.scored) scored_.push_back({.id = request_.tokens.front()});
  begun_ns_ = now_ns;
  remaining_ = sync.to_feed;
  report_.source = sync.source;
  // Virtual tokens are not charged to the turn.
  const int64_t virtual_tokens = request_.virtual_tokens;
  report_.tokens_reused = std::max<int64_t>(sync.reused - virtual_tokens, 0);
  const int64_t virtual_computed = std::max<int64_t>(virtual_tokens - sync.reused, 0);
  report_.tokens_computed = sync.to_feed - virtual_computed;
  rows_computed_ = -virtual_computed;
  report_.restore_ms = sync.restore_ms;
  report_.position = static_cast<int64_t>(prompt_tokens_) - virtual_tokens;
  const std::span<const TokenId> said = std::span(request_.tokens).subspan(static_cast<size_t>(virtual_tokens));
  sampler_.emplace(request_.sampling, vocab, said, request_.stop_ids);
  allowed_words_ = static_cast<size_t>(vocab + 31) / 32;
  if (request_.grammar != nullptr) {
    request_.matcher != nullptr ? matcher_.emplace(*request_.matcher) : matcher_.emplace(request_.grammar);
  }
  BeginReading(tokenizer);
  if (branches() > 0) {
    search_.emplace(request_.sampling.beams, request_.max_tokens, request_.stop_ids.size(),
                    BeamSearch::Beam{{}, 0, *sampler_, *reader_});
  }
  const Ring& ring = sequence_->cache()->ring();
  evicted_before_ = ring.next() > 0 ? ring.EvictedAt(ring.next() - 1) : 0;
  request_.sink->OnStart(report_);
  if (!wants_logits()) return;
  if (matcher_) {
    const bool behind = request_.continues_answer && request_.matcher == nullptr;
    Status begun = behind ? matcher_->Append(request_.begun) : Status::Ok();
    if (!begun.ok()) Finish(FinishReason::kError, std::move(begun));
  }
  CheckBudget();
  FindAllowed();
  CheckLimits();
}

void RunningTurn::BeginReading(const Tokenizer& tokenizer) {
  tokenizer_ = &tokenizer;
  reader_.emplace(tokenizer, /*at_start=*/!request_.continues_answer, request_.channels,
                  StopRule(request_.stop_strings, request_.stop_ids, request_.sampling.min_tokens));
  if (request_.channels == nullptr) return;
  budget_used_ = reader_->Replay(request_.begun_ids);
  if (!matcher_) return;
  follows_call_ = reader_->in_call();
  if (request_.recipients != nullptr) guide_.emplace(tokenizer, request_.recipients, request_.must_call);
  if (reader_->in_answer()) reader_->BeginAnswer();
  Force(request_.channels->open);
  if (forced_.size() == 1) opens_reasoning_ = forced_.front();
  forced_.clear();
  if (guide_ && reader_->channels()->in_header()) Force(guide_->Forced(*reader_->channels()));
}

void RunningTurn::Force(std::string_view markup) {
  const TextPiece piece{std::string(markup), true};
  for (const TokenId id : tokenizer_->EncodeAll({&piece, 1})) {
    if (id >= 0 && static_cast<size_t>(id) < allowed_words_ * 32) forced_.push_back(id);
  }
}

void RunningTurn::CheckBudget() {
  const bool used_up = request_.reasoning_budget >= 0 && budget_used_ >= request_.reasoning_budget;
  if (!used_up || !reader_->in_reasoning() || !forced_.empty() || search_) return;
  if (!guide_) return Force(request_.channels->forced_close);
  Force(request_.channels->close);
  Force(guide_->NextMessage());
}

void RunningTurn::FindAllowed() {
  if (finished_) return;
  allowed_.clear();
  if (!forced_.empty()) {
    allowed_.resize(allowed_words_, 0);
    allowed_[static_cast<size_t>(forced_.front()) / 32] |= 1u << (forced_.front() % 32);
  } else if (guide_ && FollowHeader()) {
    return;
  } else if (matcher_ && (reader_->in_answer() || reader_->undecided()) && (!reader_->in_call() || follows_call_)) {
    allowed_.resize(allowed_words_, 0);
    FollowGrammar();
    if (reader_->undecided() && opens_reasoning_ >= 0) {
      allowed_[static_cast<size_t>(opens_reasoning_) / 32] |= 1u << (opens_reasoning_ % 32);
    }
  } else if (matcher_ && !matcher_->may_end() && !reader_->in_call()) {
    // Forbid stop tokens that would end the turn before an answer.
    allowed_.resize(allowed_words_, ~0u);
    for (const TokenId id : request_.stop_ids) {
      const size_t word = static_cast<size_t>(id) / 32;
      if (id >= 0 && word < allowed_.size() && reader_->Ends(id)) allowed_[word] &= ~(1u << (id % 32));
    }
  }
}

// A call's end is sampled by no grammar: its token is appended once the arguments are whole.
Status RunningTurn::TakeInCall(const AnswerReader::Step& step, bool within) {
  if (!within) follows_call_ = matcher_->Append(step.answer).ok();  // the model may know other tools
  if (!within || !follows_call_) return Status::Ok();
  RETURN_IF_ERROR(matcher_->Append(step.answer));
  if (!reader_->in_call() && !matcher_->may_continue()) Finish(FinishReason::kStop);
  if (!reader_->in_call() || !step.answer.ends_with('}')) return Status::Ok();
  GrammarMatcher ended(*matcher_);
  if (ended.Append(request_.channels->call_close).ok()) Force("<|call|>");
  return Status::Ok();
}

bool RunningTurn::FollowHeader() {
  if (!reader_->channels()->in_header()) return false;
  allowed_.resize(allowed_words_, 0);
  const Result<bool> restricts = guide_->FillMask(*reader_->channels(), allowed_);
  if (!restricts.ok()) Finish(FinishReason::kError, restricts.status());
  if (!restricts.ok() || *restricts) return true;
  allowed_.clear();
  return false;
}

Status RunningTurn::AdvanceGrammar(TokenId id, const AnswerReader::Step& step, bool answered, bool forced,
                                   bool called) {
  if (request_.channels == nullptr) return matcher_->Take(id);
  if (called || reader_->in_call()) return TakeInCall(step, called);
  if (guide_ && forced_.empty() && reader_->channels()->in_header()) Force(guide_->Forced(*reader_->channels()));
  if (forced) {
    if (forced_.empty() && reader_->in_answer()) reader_->BeginAnswer();
    return Status::Ok();
  }
  if (answered) return step.answer.empty() ? Status::Ok() : matcher_->Take(id);
  if (reader_->between() && !matcher_->may_end()) {
    Force(guide_ ? guide_->NextMessage() : "<|start|>assistant<|channel|>final<|message|>");
  }
  if (!reader_->in_answer()) return Status::Ok();  // or still undecided
  // The answer starts. The grammar does not cover the separator before it.
  if (!step.answer.empty()) return matcher_->Append(step.answer);
  const ChannelFormat& format = *request_.channels;
  const size_t close = format.forced_close.rfind(format.close);
  if (format.layout == ChannelFormat::Layout::kSpan && close != std::string::npos) {
    Force(std::string_view(format.forced_close).substr(close + format.close.size()));
  }
  if (forced_.empty()) reader_->BeginAnswer();
  return Status::Ok();
}

void RunningTurn::FollowGrammar() {
  if (!matcher_->may_continue()) return Finish(FinishReason::kStop);
  if (Status status = matcher_->FillMask(allowed_); !status.ok())
    return Finish(FinishReason::kError, std::move(status));
  // Stop tokens add no text to the answer, so the grammar decides by may_end alone.
  for (const TokenId id : request_.stop_ids) {
    const size_t word = static_cast<size_t>(id) / 32;
    if (id < 0 || word >= allowed_.size()) continue;
    const uint32_t bit = 1u << (id % 32);
    matcher_->may_end() ? allowed_[word] |= bit : allowed_[word] &= ~bit;
  }
}

int64_t RunningTurn::max_reusable() const {
  const auto length = static_cast<int64_t>(request_.tokens.size());
  if (request_.scored && !scores_reported_) return std::max<int64_t>(std::ssize(scored_) - 1, 0);
  if (request_.embedded) return embedded_tokens_;
  if (beams_begun()) return static_cast<int64_t>(prompt_tokens_);
  return wants_logits() ? length - 1 : length;
}

bool RunningTurn::scores_next() const {
  return request_.scored && sequence_->computed() < static_cast<int64_t>(prompt_tokens_);
}

bool RunningTurn::needs_results() const {
  const int64_t next = sequence_->computed();
  return (request_.embedded && next >= embedded_tokens_) ||
         (request_.scored && !scores_reported_ && next + 1 >= std::ssize(scored_));
}

RowSamplingParams RunningTurn::ScoreAt(int64_t position) const {
  RowSamplingParams choice;
  choice.temperature = 0;
  choice.logprobs = request_.sampling.logprobs;
  const auto at = static_cast<size_t>(position);
  if (at < prompt_tokens_) choice.scored = request_.tokens[at];
  return choice;
}

void RunningTurn::StoreScore(int64_t position, const SampledToken& token) {
  if (Status status = StatusOf(token); !status.ok()) return Finish(FinishReason::kError, std::move(status));
  // Recomputed, because the turn lost its cache meanwhile.
  if (position != std::ssize(scored_) || static_cast<size_t>(position) >= prompt_tokens_) return;
  scored_.push_back({token.id, token.logprob, {token.best().begin(), token.best().end()}});
}

void RunningTurn::ReportScores() {
  if (!request_.scored || std::exchange(scores_reported_, true)) return;
  CHECK_EQ(scored_.size(), prompt_tokens_);
  request_.sink->OnScored(std::move(scored_));
}

void RunningTurn::CollectHiddenStates(int64_t first, std::span<const float> states, int64_t width) {
  embedding_.resize(static_cast<size_t>(width));
  for (; !states.empty(); states = states.subspan(embedding_.size()), ++first) {
    if (first != embedded_tokens_) continue;  // recomputed, because the turn lost its cache meanwhile
    for (size_t i = 0; i < embedding_.size(); ++i) embedding_[i] += static_cast<double>(states[i]);
    ++embedded_tokens_;
  }
}

void RunningTurn::ReportEmbedding() {
  if (!request_.embedded) return;
  std::vector<float> mean;
  for (const double sum : embedding_) mean.push_back(static_cast<float>(sum / static_cast<double>(embedded_tokens_)));
  if (!std::ranges::all_of(mean, [](float x) { return std::isfinite(x); })) {
    return Finish(FinishReason::kError, Unavailable("the model produced hidden states that are not finite"));
  }
  request_.sink->OnEmbedded(std::move(mean));
}

void RunningTurn::FinishPrefill() {
  // The step that scores the last tokens may have been launched ahead of the finished one.
  if (finished_ || (request_.scored && scored_.size() < prompt_tokens_) ||
      (request_.embedded && embedded_tokens_ < static_cast<int64_t>(prompt_tokens_))) {
    return;
  }
  ReportScores();
  ReportEmbedding();
  Finish(request_.scored ? FinishReason::kLength : FinishReason::kStop);
}

std::span<const TokenId> RunningTurn::NextChunk(int64_t limit) {
  return sequence_->NextChunk(timeline().tokens, limit);
}

void RunningTurn::AdvancePosition(std::span<const TokenId> chunk) {
  if (rebuilds_beams()) return AdvanceBeamPosition(chunk);
  sequence_->AdvancePosition(chunk);
  remaining_ -= static_cast<int64_t>(chunk.size());
  CHECK_GE(remaining_, 0);
}

void RunningTurn::CheckLimits() {
  const auto length = static_cast<int64_t>(request_.tokens.size());
  const auto generated = length - static_cast<int64_t>(prompt_tokens_);
  if (length >= session_len_)
    Finish(FinishReason::kSessionFull);
  else if (request_.max_tokens > 0 && generated >= request_.max_tokens)
    Finish(FinishReason::kLength);
}

int64_t RunningTurn::most_tokens() const {
  const auto length = static_cast<int64_t>(begun() ? prompt_tokens_ : request_.tokens.size());
  return branches() > 0 ? length + request_.max_tokens : static_cast<int64_t>(request_.tokens.size());
}

RowSamplingParams RunningTurn::Choice(size_t beam) {
  if (search_) return search_->Choice(beam, static_cast<int64_t>(prompt_tokens_ + search_->beam(beam).tokens.size()));
  const bool in_answer = reader_->in_answer() || reader_->undecided();
  RowSamplingParams choice = sampler_->Choice(static_cast<int64_t>(request_.tokens.size()), in_answer);
  choice.allowed = allowed_;
  return choice;
}

bool RunningTurn::CanRunAhead() const {
  const auto length = static_cast<int64_t>(request_.tokens.size());
  const auto generated = length - static_cast<int64_t>(prompt_tokens_);
  return remaining_ == 0 && !ahead_ && !search_ && length + 1 < session_len_ &&
         (request_.max_tokens < 0 || generated + 1 < request_.max_tokens);
}

void RunningTurn::Take(const SampledToken& chosen, int64_t now_ns) {
  if (first_token_ns_ == 0) first_token_ns_ = now_ns;
  taken_ns_ = now_ns;
  remaining_ = 1;
  if (search_) return AddBeamCandidates(chosen);
  if (Status status = StatusOf(chosen); !status.ok()) return Finish(FinishReason::kError, std::move(status));
  ReportScores();
  Append({chosen.id, chosen.logprob, {chosen.best().begin(), chosen.best().end()}});
}

void RunningTurn::AddBeamCandidates(const SampledToken& found) {
  found_.push_back(found);
  if (found_.size() < search_->beams()) return;
  AdvanceBeams();
  found_.clear();
}

void RunningTurn::AdvanceBeams() {
  if (has_beams()) {
    for (size_t beam = 0; beam < search_->beams(); ++beam)
      beam_caches_->AdvancePosition(beam, LastOfBeam(beam).front());
  } else {
    beam_caches_->Begin(*sequence_->cache());
  }
  if (Status status = search_->Advance(found_); !status.ok()) return Finish(FinishReason::kError, std::move(status));
  if (search_->parent_of_best()) beam_caches_->KeepBestRows(*search_->parent_of_best());
  if (!search_->done()) beam_caches_->Follow(search_->parents());
  for (const TokenId id : search_->settled().subspan(request_.tokens.size() - prompt_tokens_)) Append({.id = id});
  CHECK(finished_ || !search_->done());
}

void RunningTurn::ResumeBeams() {
  beam_caches_->Begin(*sequence_->cache(), search_->beams());
  rebuilt_beam_ = 0;
  remaining_ = 1;
  for (size_t beam = 0; beam < search_->beams(); ++beam) {
    const std::span<const TokenId> tokens = CachedTokensOfBeam(beam);
    int64_t copied = 0;
    for (size_t earlier = 0; earlier < beam; ++earlier) {
      const int64_t common = std::ranges::mismatch(tokens, CachedTokensOfBeam(earlier)).in1 - tokens.begin();
      copied = std::max(copied, common);
    }
    remaining_ += std::ssize(tokens) - copied;
  }
  rows_computed_ -= remaining_ - 1;
}

RunningTurn::BeamChunk RunningTurn::NextBeamChunk(int64_t limit) {
  std::span<const TokenId> lacking;
  while ((lacking = beam_caches_->CopyFromEarlier(rebuilt_beam_, CachedTokensOfBeam(rebuilt_beam_))).empty())
    ++rebuilt_beam_;
  KvCache* cache = beam_caches_->OfBeam(rebuilt_beam_);
  const int64_t rows = std::min({limit, std::ssize(lacking), cache->ring().max_chunk()});
  return {cache, lacking.first(static_cast<size_t>(rows))};
}

void RunningTurn::AdvanceBeamPosition(std::span<const TokenId> chunk) {
  beam_caches_->AdvancePosition(rebuilt_beam_, chunk);
  remaining_ -= std::ssize(chunk);
  CHECK_GE(remaining_, 1);
  if (remaining_ > 1) return;
  for (size_t beam = rebuilt_beam_ + 1; beam < search_->beams(); ++beam) {
    CHECK(beam_caches_->CopyFromEarlier(beam, CachedTokensOfBeam(beam)).empty());
  }
}

std::vector<KvCache*> RunningTurn::DetachBranches(bool keep) {
  if (!beam_caches_) return {};
  if (keep && beam_caches_->begun()) {
    const std::span<const TokenId> answer = std::span(request_.tokens).subspan(prompt_tokens_);
    KvCache* cache = sequence_->cache();
    const auto tokens = std::ssize(answer);
    const int64_t joined =
        search_->done() ? beam_caches_->JoinBest(cache, tokens) : beam_caches_->JoinFirstBeam(cache, tokens);
    sequence_->AdvancePosition(answer.first(static_cast<size_t>(joined)));
  }
  std::vector<KvCache*> caches = beam_caches_->caches();
  beam_caches_.reset();
  return caches;
}

void RunningTurn::Append(const OutputToken& token) {
  const TokenId id = token.id;
  request_.tokens.push_back(id);
  if (std::exchange(ahead_, false)) AdvancePosition(std::span(request_.tokens).last(1));
  const bool forced = !forced_.empty();
  if (forced) forced_.erase(forced_.begin());
  const bool strict = matcher_ && !matcher_->may_end();  // the grammar does not accept an empty text
  if (strict && reader_->undecided() && id != opens_reasoning_) reader_->BeginAnswer();
  const bool answered = reader_->in_answer(), called = reader_->in_call();
  AnswerReader::Step step = reader_->Push(id);
  step.reasoning_token ? sampler_->Skip() : sampler_->Append(id);
  if (step.stop) {
    stop_string_ = step.matched;
    Finish(FinishReason::kStop);
  }
  EmitToken(token, step);
  if (finished_) return;
  if (matcher_) {
    if (Status status = AdvanceGrammar(id, step, answered, forced, called); !status.ok())
      Finish(FinishReason::kError, status);
  }
  CheckBudget();
  FindAllowed();
  if (request_.ends_repetition && !search_) CheckRepetition(id);
  if (!finished_) CheckLimits();
}

void RunningTurn::CheckRepetition(TokenId id) {
  const auto generated = std::ssize(request_.tokens) - static_cast<int64_t>(prompt_tokens_);
  if (!repetition_.Push(id) || finished_ || generated < request_.sampling.min_tokens) return;
  if (!matcher_ || matcher_->may_end()) Finish(FinishReason::kRepetition);
}

void RunningTurn::EmitToken(const OutputToken& token, const AnswerReader::Step& step) {
  if (step.stop && step.matched.empty()) {
    stop_token_ = token;
  } else {
    undecided_.push_back(token);
  }
  const auto tokens = std::ssize(undecided_) + (stop_token_ ? 1 : 0);
  if (reader_->undecided() && !step.stop) return;
  TokenDelta delta{.tokens = std::exchange(undecided_, {}), .text = step.text, .reasoning = step.reasoning};
  delta.reasoning_ended = request_.channels != nullptr && reader_->in_answer();
  if (step.reasoning_token) {
    delta.reasoning_tokens = std::ssize(delta.tokens);
    reasoning_tokens_ += tokens;
    budget_used_ += tokens;
    reasoned_until_ns_ = taken_ns_;
  }
  request_.sink->OnTokens(delta);
}

void RunningTurn::Finish(FinishReason reason, Status error) {
  if (finished_) return;
  finished_ = reason;
  error_ = std::move(error);
}

int64_t RunningTurn::evicted_since_begin() const {
  const Ring& ring = sequence_->cache()->ring();
  const int64_t now = ring.next() > 0 ? ring.EvictedAt(ring.next() - 1) : 0;
  return std::max<int64_t>(0, now - evicted_before_);
}

void RunningTurn::FillEvicted(CacheReport* report) const {
  // Recompute this from the window and the message starts, because the cache's ring may be gone.
  Ring ring(request_.window, request_.window.memory_len);
  for (const int64_t start : request_.message_starts) ring.AddMessageStart(start);
  const int64_t last = std::ssize(request_.tokens) - 1;
  report->tokens_evicted = ring.EvictedAt(last);
  if (report->tokens_evicted == 0) return;
  const auto starts = ring.message_starts();
  const auto from = std::lower_bound(starts.begin(), starts.end(), ring.window().pinned);
  report->messages_evicted = std::lower_bound(from, starts.end(), ring.FirstLive(last)) - from;
}

void RunningTurn::End(int64_t now_ns) {
  CHECK(finished_.has_value());
  const auto ms = [](int64_t from, int64_t to) { return static_cast<double>(to - from) * 1e-6; };
  TurnEnd end;
  end.reason = *finished_;
  end.error = error_;
  end.stop_string = stop_string_;
  end.stop_token = stop_token_;
  end.report = report_;
  end.rows_computed = std::max<int64_t>(rows_computed_, 0);
  if (sequence_ != nullptr) {
    // A stop string removes the held-back text; any other end emits it, even an incomplete character.
    AnswerReader::Step rest = stop_string_.empty() ? reader_->Finish() : AnswerReader::Step();
    if (!rest.text.empty() || !rest.reasoning.empty() || !undecided_.empty()) {
      request_.sink->OnTokens({.tokens = std::exchange(undecided_, {}),
                               .text = std::move(rest.text),
                               .reasoning = std::move(rest.reasoning)});
    }
    end.reasoning_tokens = reasoning_tokens_;
    end.cut_in_reasoning = wants_logits() && !reader_->answer_begun() && !reader_->undecided();
    end.output.assign(request_.tokens.begin() + static_cast<int64_t>(prompt_tokens_), request_.tokens.end());
    end.report.position = std::ssize(request_.tokens) - request_.virtual_tokens;
    FillEvicted(&end.report);
    end.times.queue_ms = ms(submitted_ns_, begun_ns_);
    end.times.slot_ms = no_slot_ns_ == 0 ? 0 : ms(no_slot_ns_, begun_ns_);
    end.times.others_ms = ms(0, others_ns_);
    if (first_token_ns_ != 0) {
      end.times.prefill_ms = ms(begun_ns_, first_token_ns_);
      end.times.decode_ms = ms(first_token_ns_, now_ns);
      if (reasoned_until_ns_ != 0) end.times.reasoning_ms = ms(first_token_ns_, reasoned_until_ns_);
    }
  }
  // Move the sink out, so that no reference remains after OnEnd.
  const std::shared_ptr<TokenSink> sink = std::move(request_.sink);
  sink->OnEnd(end);
}

}  // namespace ringside
