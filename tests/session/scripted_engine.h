// Drives sessions in tests: a tokenizer with one id per byte, and a TurnEngine played by the test, which sees every
// TurnRequest and supplies the sampled tokens. THREAD: one, unless a test says otherwise.
#pragma once

#include <algorithm>
#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "engine/text/channels/answer_reader.h"
#include "session/table/session_table.h"

namespace ringside {

/// Ids 0..255 are bytes, then "<|im_start|>" 256, "<|im_end|>" 257; `first_id` shifts all ids, after ids without
/// meaning.
class ByteTokenizer : public Tokenizer {
 public:
  static constexpr TokenId kImStart = 256, kImEnd = 257;

  explicit ByteTokenizer(TokenId first_id = 0) : first_id_(first_id) {}
  TokenId first_id() const { return first_id_; }
  TokenId im_end() const { return first_id_ + kImEnd; }

  std::optional<std::vector<TokenId>> Encode(std::span<const TextPiece> pieces, int64_t max_tokens) const override {
    if (const auto call = std::exchange(on_next_encode, nullptr)) call();
    std::vector<TokenId> ids;
    if (adds_space) ids.push_back(first_id_ + ' ');
    for (const TextPiece& piece : pieces) {
      std::string_view rest = piece.text;
      while (!rest.empty()) {
        TokenId id = static_cast<unsigned char>(rest.front());
        size_t length = 1;
        for (const TokenId special : {kImStart, kImEnd}) {
          const std::string_view name = TokenName(first_id_ + special);
          if (piece.markup && rest.starts_with(name)) {
            id = special;
            length = name.size();
          }
        }
        if (static_cast<int64_t>(ids.size()) >= max_tokens) return std::nullopt;
        ids.push_back(first_id_ + id);
        ++*tokens_made_;
        rest.remove_prefix(length);
      }
    }
    return ids;
  }
  std::string_view TokenBytes(TokenId id) const override {
    static const std::string bytes = [] {
      std::string all;
      for (int i = 0; i < 256; ++i) all.push_back(static_cast<char>(i));
      return all;
    }();
    const TokenId byte = id - first_id_;
    return byte >= 0 && byte < 256 ? std::string_view(bytes).substr(static_cast<size_t>(byte), 1) : std::string_view();
  }
  std::string_view TokenName(TokenId id) const override {
    if (id == first_id_ + kImStart) return "<|im_start|>";
    if (id == first_id_ + kImEnd) return "<|im_end|>";
    return TokenBytes(id);
  }
  bool IsSpecial(TokenId id) const override { return id >= first_id_ + 256; }
  std::optional<TokenId> FindSpecial(std::string_view name) const override {
    for (const TokenId id : {first_id_ + kImStart, first_id_ + kImEnd}) {
      if (name == TokenName(id)) return id;
    }
    return std::nullopt;
  }
  int64_t vocab_size() const override { return first_id_ + 258; }
  bool strips_leading_space() const override { return adds_space; }

  /// Called once, on the thread that tokenizes next: runs concurrently with a tokenization.
  mutable std::function<void()> on_next_encode;

  /// Prepends a space to each text, as Llama 2's tokenizer does.
  bool adds_space = false;

  /// Over all calls, including failed ones.
  int64_t tokens_made() const { return *tokens_made_; }

  std::string Decode(std::span<const TokenId> ids) const {
    std::string text;
    for (const TokenId id : ids) text += TokenName(id);
    return text;
  }

 private:
  TokenId first_id_;
  std::shared_ptr<std::atomic<int64_t>> tokens_made_ = std::make_shared<std::atomic<int64_t>>(0);
};

inline std::vector<TokenId> Bytes(std::string_view text) {
  std::vector<TokenId> ids;
  for (const char c : text) ids.push_back(static_cast<unsigned char>(c));
  return ids;
}

/// A turn with this question.
inline TurnSpec Ask(std::string text, std::string conversation = "", std::string previous = "") {
  TurnSpec spec;
  spec.input = {{ChatRole::kUser, std::move(text)}};
  spec.conversation = std::move(conversation);
  spec.previous_response_id = std::move(previous);
  return spec;
}

/// Holds the submitted turns until the test ends them.
class ScriptedEngine final : public TurnEngine {
 public:
  /// `first_id`: of the table's ByteTokenizer.
  explicit ScriptedEngine(TokenId first_id = 0) : first_id_(first_id) {}

  Status CheckWait(const TurnRequest& request) override {
    std::lock_guard lock(mutex_);
    return request.admitted ? Status::Ok() : overload_;
  }
  Status Submit(TurnRequest request) override {
    std::lock_guard lock(mutex_);
    if (!refusal_.ok()) return refusal_;
    if (request.forked_from != 0) forks_.emplace_back(request.forked_from, request.timeline);
    requests_.push_back(std::move(request));
    outputs_.emplace_back();
    return Status::Ok();
  }
  void Cancel(TurnId turn) override {
    std::lock_guard lock(mutex_);
    cancelled_.push_back(turn);
  }
  void Close(TimelineId timeline) override {
    std::lock_guard lock(mutex_);
    closed_.push_back(timeline);
  }
  void Park(TimelineId timeline) override {
    std::lock_guard lock(mutex_);
    parked_.push_back(timeline);
  }
  void Fork(TimelineId from, TimelineId to, const std::string&, const std::string&) override {
    std::lock_guard lock(mutex_);
    forks_.emplace_back(from, to);
  }
  void Erase(TimelineId, const std::string& owner) override {
    if (const auto call = std::exchange(on_next_erase, nullptr)) call();
    std::lock_guard lock(mutex_);
    erased_.push_back(owner);
  }
  void Prefetch(const std::string&) override {}
  /// Called once, within the next Erase.
  std::function<void()> on_next_erase;
  std::optional<CacheSource> Where(const std::string& owner) const override {
    std::lock_guard lock(mutex_);
    for (const TurnRequest& request : requests_) {
      if (request.owner == owner) return CacheSource::kSlot;
    }
    return std::nullopt;
  }

  /// Every request so far, in order.
  std::vector<TurnRequest> requests() const {
    std::lock_guard lock(mutex_);
    return requests_;
  }
  size_t count() const {
    std::lock_guard lock(mutex_);
    return requests_.size();
  }
  TurnRequest last() const {
    std::lock_guard lock(mutex_);
    CHECK(!requests_.empty());
    return requests_.back();
  }
  std::vector<TurnId> cancelled() const {
    std::lock_guard lock(mutex_);
    return cancelled_;
  }
  std::vector<TimelineId> closed() const {
    std::lock_guard lock(mutex_);
    return closed_;
  }
  std::vector<TimelineId> parked() const {
    std::lock_guard lock(mutex_);
    return parked_;
  }
  std::vector<std::string> erased() const {
    std::lock_guard lock(mutex_);
    return erased_;
  }
  std::vector<std::pair<TimelineId, TimelineId>> forks() const {
    std::lock_guard lock(mutex_);
    return forks_;
  }
  /// Sets the result of further Submit calls.
  void Refuse(Status status) {
    std::lock_guard lock(mutex_);
    refusal_ = std::move(status);
  }
  /// Sets the result of further CheckWait calls, but for turns that are admitted already.
  void Overload(Status status) {
    std::lock_guard lock(mutex_);
    overload_ = std::move(status);
  }

  // Plays the engine. `index` counts submitted turns from 0.
  void Start(size_t index) {
    const TurnRequest request = At(index);
    CacheReport report = ReportFor(request);
    request.sink->OnStart(report);
  }
  /// Scores the prompt if requested: -0.25, and -0.125 for an `a`, which is the likeliest.
  void Score(size_t index) {
    const TurnRequest request = At(index);
    std::vector<OutputToken> tokens;
    for (const TokenId id : request.tokens) {
      tokens.push_back({id, -0.25F, {}});
      for (int64_t i = 0; i < request.sampling.logprobs; ++i) {
        tokens.back().top.push_back({IdOf(static_cast<char>('a' + i)), -0.125F});
      }
    }
    tokens.front() = {request.tokens.front()};
    request.sink->OnScored(std::move(tokens));
  }
  /// Delivers the prompt's embedding and ends the turn.
  void Embed(size_t index, std::vector<float> mean) {
    Start(index);
    At(index).sink->OnEmbedded(std::move(mean));
    End(index);
  }
  /// One step per character.
  void Say(size_t index, std::string_view text) {
    const TurnRequest request = At(index);
    for (const char c : text) {
      OutputToken token{IdOf(c), -0.5F, {}};
      for (int64_t i = 0; i < request.sampling.logprobs; ++i)
        token.top.push_back({first_id_ + static_cast<TokenId>('a' + i), -1.0F});
      request.sink->OnTokens({{token}, std::string(1, c)});
    }
    std::lock_guard lock(mutex_);
    for (const char c : text) outputs_[index].push_back(IdOf(c));
  }
  /// One step per sampled token, including channel markup, which the turn's reader parses as in the engine.
  /// "<|im_end|>" and ByteTokenizer's other special tokens are not text.
  void Sample(size_t index, std::string_view sampled) {
    const TurnRequest request = At(index);
    auto [reader, fresh] = readers_.try_emplace(index, tokenizer_, !request.continues_answer, request.channels,
                                                StopRule(request.stop_strings, request.stop_ids));
    if (fresh) (void)reader->second.Replay(request.begun_ids);
    const TextPiece piece{std::string(sampled), true};
    for (const TokenId id : tokenizer_.EncodeAll({&piece, 1})) {
      AnswerReader::Step step = reader->second.Push(id);
      std::vector<OutputToken>& held = held_[index];
      held.push_back(OutputToken{id, -0.5F, {}});
      if (!reader->second.undecided()) {
        const int64_t reasoning = step.reasoning_token ? std::ssize(held) : 0;
        reasoning_tokens_[index] += reasoning;
        request.sink->OnTokens({.tokens = std::exchange(held, {}),
                                .text = std::move(step.text),
                                .reasoning = std::move(step.reasoning),
                                .reasoning_ended = request.channels != nullptr && reader->second.in_answer(),
                                .reasoning_tokens = reasoning});
      }
      std::lock_guard lock(mutex_);
      outputs_[index].push_back(id);
    }
  }
  /// Steps whose text is withheld.
  void HoldBack(size_t index, std::string_view text) {
    for (const char c : text) SayNothing(index, IdOf(c));
  }
  /// One step that samples an end of turn, which the request ignores.
  void PassEnd(size_t index) { SayNothing(index, first_id_ + ByteTokenizer::kImEnd); }
  /// One step with this whole text, whatever its length.
  void SayAtOnce(size_t index, const std::string& text) {
    At(index).sink->OnTokens({{OutputToken{IdOf('x'), -0.5F, {}}}, text});
    std::lock_guard lock(mutex_);
    outputs_[index].push_back(IdOf('x'));
  }
  void End(size_t index, FinishReason reason = FinishReason::kStop, Status error = {}) {
    const TurnRequest request = At(index);
    TurnEnd end;
    end.reason = reason;
    end.error = std::move(error);
    {
      std::lock_guard lock(mutex_);
      end.output = outputs_[index];
      requests_[index].sink.reset();  // as the engine does
    }
    if (reason == FinishReason::kStop && request.max_tokens != 0) {
      end.stop_token = {first_id_ + ByteTokenizer::kImEnd, -0.75F, {}};
      end.output.push_back(end.stop_token->id);
    }
    if (const auto reader = readers_.find(index); reader != readers_.end()) {
      end.reasoning_tokens = reasoning_tokens_[index];
      end.cut_in_reasoning = !reader->second.answer_begun() && !reader->second.undecided();
      AnswerReader::Step rest = reader->second.Finish();
      if (!rest.text.empty() || !rest.reasoning.empty() || !held_[index].empty()) {
        request.sink->OnTokens({.tokens = std::exchange(held_[index], {}),
                                .text = std::move(rest.text),
                                .reasoning = std::move(rest.reasoning)});
      }
    }
    end.report = ReportFor(request);
    end.report.position = static_cast<int64_t>(request.tokens.size() + end.output.size());
    {
      std::lock_guard lock(mutex_);
      end.drafts = drafts_;
    }
    end.times = {.queue_ms = 1, .slot_ms = .5, .prefill_ms = 2, .others_ms = .75, .decode_ms = 30};
    request.sink->OnEnd(end);
  }
  /// Sets the evictions reported by later turn ends.
  void Evict(int64_t tokens, int64_t messages) {
    std::lock_guard lock(mutex_);
    tokens_evicted_ = tokens;
    messages_evicted_ = messages;
  }
  /// Sets the number of replayed tokens reported by later turns.
  void Replay(int64_t tokens) {
    std::lock_guard lock(mutex_);
    tokens_replayed_ = tokens;
  }
  /// Sets the drafts reported by later turn ends.
  void Draft(const DraftReport& drafts) {
    std::lock_guard lock(mutex_);
    drafts_ = drafts;
  }
  /// A complete answer.
  void Answer(size_t index, std::string_view text, FinishReason reason = FinishReason::kStop) {
    Start(index);
    Say(index, text);
    End(index, reason);
  }
  void AnswerLast(std::string_view text) { Answer(count() - 1, text); }

  /// A step without text.
  void SayNothing(size_t index, TokenId id) {
    At(index).sink->OnTokens({{OutputToken{id, -0.5F, {}}}, ""});
    std::lock_guard lock(mutex_);
    outputs_[index].push_back(id);
  }

 private:
  TokenId IdOf(char c) const { return first_id_ + static_cast<unsigned char>(c); }
  TurnRequest At(size_t index) const {
    std::lock_guard lock(mutex_);
    CHECK_LT(index, requests_.size());
    CHECK(requests_[index].sink != nullptr);
    return requests_[index];
  }
  // Reports what an engine would whose slot holds the state after the timeline's last turn.
  CacheReport ReportFor(const TurnRequest& request) {
    std::lock_guard lock(mutex_);
    CacheReport report;
    for (const TurnRequest& earlier : requests_) {
      if (earlier.turn >= request.turn || earlier.timeline != request.timeline) continue;
      report.source = CacheSource::kSlot;
      report.tokens_reused = static_cast<int64_t>(earlier.tokens.size());
    }
    report.tokens_computed = static_cast<int64_t>(request.tokens.size()) - report.tokens_reused;
    report.position = static_cast<int64_t>(request.tokens.size());
    report.tokens_replayed = tokens_replayed_;
    report.tokens_evicted = tokens_evicted_;
    report.messages_evicted = messages_evicted_;
    return report;
  }

  const TokenId first_id_;
  const ByteTokenizer tokenizer_{first_id_};
  std::map<size_t, AnswerReader> readers_;  // for sampled turns
  std::map<size_t, std::vector<OutputToken>> held_;
  std::map<size_t, int64_t> reasoning_tokens_;
  mutable std::mutex mutex_;
  std::vector<TurnRequest> requests_;
  std::vector<std::vector<TokenId>> outputs_;
  std::vector<TurnId> cancelled_;
  std::vector<TimelineId> closed_, parked_;
  std::vector<std::string> erased_;
  std::vector<std::pair<TimelineId, TimelineId>> forks_;
  Status refusal_, overload_;
  int64_t tokens_replayed_ = 0, tokens_evicted_ = 0, messages_evicted_ = 0;
  DraftReport drafts_;
};

/// A table on a scripted engine.
struct TableFixture {
  /// `family`: of chat templates.
  explicit TableFixture(SessionTableOptions options = Options(), const std::string& family = "chatml")
      : chat(std::move(ChatTemplate::Named(family).value())),
        table(std::move(options), tokenizer, chat, engine, nullptr, clock) {}

  static SessionTableOptions Options() {
    SessionTableOptions options;
    options.model_name = "tiny";
    options.session_len = 2000;
    options.memory_len = 512;
    options.pinned_max = 64;
    options.end_of_turn = {ByteTokenizer::kImEnd};
    return options;
  }

  ManualClock clock;
  ByteTokenizer tokenizer;
  ScriptedEngine engine;
  ChatTemplate chat;
  SessionTable table;
};

}  // namespace ringside
