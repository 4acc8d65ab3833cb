#include "engine/engine_loop.h"

#include <pthread.h>

#include <algorithm>

#include "base/check.h"
#include "base/limits.h"
#include "base/log.h"

namespace ringside {

EngineLoop::EngineLoop(ForwardPass network, const Tokenizer& tokenizer, const EngineOptions& options, KvPool pool,
                       const Clock& clock)
    : network_(std::move(network)),
      tokenizer_(tokenizer),
      options_(options),
      clock_(clock),
      inbox_(limits::kEngineInboxMessages),
      pool_(std::move(pool)) {
  counts_.slots = pool_.slots();
  PublishStats();
  thread_ = std::thread([this] { Run(); });
  pthread_setname_np(thread_.native_handle(), "engine");
}

EngineLoop::~EngineLoop() {
  inbox_.Close();
  thread_.join();
}

int64_t EngineLoop::SessionLimit(const TurnRequest& request) const {
  int64_t limit = request.session_len > 0 ? std::min(request.session_len, options_.session_len) : options_.session_len;
  if (network_.position_limit > 0) limit = std::min(limit, network_.position_limit);
  return limit;
}

Status EngineLoop::Check(const TurnRequest& request) const {
  if (request.sink == nullptr) return InvalidArgument("a turn needs a sink");
  if (request.tokens.empty()) return InvalidArgument("the input is empty", "input");
  const auto length = static_cast<int64_t>(request.tokens.size());
  if (const int64_t limit = SessionLimit(request); length > limit) {
    return InvalidArgument(fmt::format("the conversation would be {} tokens long; the limit is {}", length, limit),
                           "input", "context_length_exceeded");
  }
  const auto unknown = std::find_if(request.tokens.begin(), request.tokens.end(),
                                    [&](TokenId id) { return id < 0 || id >= network_.vocab; });
  if (unknown != request.tokens.end()) return InvalidArgument(fmt::format("no token has the id {}", *unknown), "input");
  if (request.window.pinned < 0 || request.window.pinned > options_.pinned_max) {
    return InvalidArgument(fmt::format("pinned tokens must be 0 to {}", options_.pinned_max), "pinned");
  }
  if (request.window.memory_len < 1 || request.window.memory_len > options_.memory_len) {
    return InvalidArgument(fmt::format("memory_len must be 1 to {}", options_.memory_len), "memory_len");
  }
  if (request.max_tokens < -1) return InvalidArgument("max_tokens must not be negative", "max_output_tokens");
  const auto& starts = request.message_starts;
  if (!std::is_sorted(starts.begin(), starts.end()) || (!starts.empty() && starts.front() < 0)) {
    return InvalidArgument("message starts must ascend", "message_starts");
  }
  return request.sampling.Validate(network_.vocab);
}

Status EngineLoop::Submit(TurnRequest request) {
  RETURN_IF_ERROR(Check(request));
  if (!healthy_) return Unavailable("the engine has failed");
  if (!inbox_.TryPush(SubmitMessage{std::move(request), clock_.MonotonicNs()})) {
    return Overloaded("too many turns are waiting");
  }
  return Status::Ok();
}

EngineStats EngineLoop::stats() const {
  std::lock_guard lock(stats_mutex_);
  return stats_;
}

void EngineLoop::PublishStats() {
  counts_.slots_used = pool_.used();
  counts_.turns_running = static_cast<int64_t>(running_.size());
  counts_.turns_waiting = static_cast<int64_t>(waiting_.size());
  std::lock_guard lock(stats_mutex_);
  stats_ = counts_;
}

void EngineLoop::Run() {
  while (!inbox_.closed()) {
    // Waits only where there is nothing to do: a turn that waits for a slot gets one as soon as none runs.
    for (Message& message : inbox_.Drain(/*wait=*/running_.empty() && waiting_.empty())) Handle(std::move(message));
    RetireFinished();
    AdmitWaiting();
    RetireFinished();
    if (!running_.empty()) Step();
    RetireFinished();
    PublishStats();
  }
  for (Message& message : inbox_.Drain(/*wait=*/false)) {
    if (auto* submit = std::get_if<SubmitMessage>(&message)) Handle(std::move(*submit));
  }
  for (auto& turn : running_) turn->Finish(FinishReason::kCancelled);
  RetireFinished();
  while (!waiting_.empty()) {
    End(std::move(waiting_.front()), FinishReason::kCancelled, {});
    waiting_.pop_front();
  }
}

void EngineLoop::Handle(Message message) {
  std::visit([this](auto&& m) { Handle(std::move(m)); }, std::move(message));
}

void EngineLoop::Handle(SubmitMessage message) {
  auto turn = std::make_unique<RunningTurn>(std::move(message.request), message.submitted_ns);
  if (static_cast<int64_t>(waiting_.size()) >= options_.queue_limit) {
    return End(std::move(turn), FinishReason::kError, Overloaded("too many turns are waiting for a slot"));
  }
  waiting_.push_back(std::move(turn));
}

void EngineLoop::Handle(CancelMessage message) {
  for (auto& turn : running_) {
    if (turn->id() == message.turn) turn->Finish(FinishReason::kCancelled);
  }
  const auto found =
      std::find_if(waiting_.begin(), waiting_.end(), [&](const auto& turn) { return turn->id() == message.turn; });
  if (found == waiting_.end()) return;
  End(std::move(*found), FinishReason::kCancelled, {});
  waiting_.erase(found);
}

void EngineLoop::Handle(CloseMessage message) {
  for (auto& turn : waiting_) {
    if (turn->timeline_id() == message.timeline) End(std::move(turn), FinishReason::kCancelled, {});
  }
  std::erase(waiting_, nullptr);
  const auto found = timelines_.find(message.timeline);
  if (found == timelines_.end()) return;
  if (found->second.turn != nullptr) {
    found->second.turn->Finish(FinishReason::kCancelled);
    RetireFinished();
  }
  if (found->second.sequence->has_cache()) pool_.Release(found->second.sequence->Detach());
  timelines_.erase(found);
}

void EngineLoop::Handle(ForkMessage message) {
  const auto from = timelines_.find(message.from);
  if (from == timelines_.end() || !from->second.sequence->has_cache() || timelines_.contains(message.to)) return;
  const Sequence& source = *from->second.sequence;
  KvCache* cache = AcquireCache(source.cache()->ring().window(), &from->second);
  if (cache == nullptr) return;
  cache->CopyFrom(*source.cache(), *network_.backend);
  Slot& to = timelines_[message.to];
  to.sequence = std::make_unique<Sequence>(network_.layers, options_.rebuild_windows);
  to.sequence->Attach(cache);
  to.sequence->CopyStateFrom(source);
  to.last_used = counts_.steps;
}

KvCache* EngineLoop::AcquireCache(const RingWindow& window, const Slot* spared) {
  if (KvCache* cache = pool_.Acquire(window); cache != nullptr) return cache;
  Slot* oldest = nullptr;
  for (auto& [id, slot] : timelines_) {
    const bool idle = slot.turn == nullptr && slot.sequence->has_cache() && &slot != spared;
    if (idle && (oldest == nullptr || slot.last_used < oldest->last_used)) oldest = &slot;
  }
  if (oldest == nullptr) return nullptr;
  pool_.Release(oldest->sequence->Detach());
  ++counts_.slots_taken;
  return pool_.Acquire(window);
}

bool EngineLoop::Admit(std::unique_ptr<RunningTurn>& turn) {
  Slot& slot = timelines_[turn->timeline_id()];
  if (slot.sequence == nullptr) slot.sequence = std::make_unique<Sequence>(network_.layers, options_.rebuild_windows);
  if (slot.turn != nullptr) {
    End(std::move(turn), FinishReason::kError, Status(StatusCode::kBusy, "the conversation is answering another turn"));
    return true;
  }
  if (!slot.sequence->has_cache()) {
    KvCache* cache = AcquireCache(turn->request().window);
    if (cache == nullptr) return false;
    slot.sequence->Attach(cache);
  }
  const SyncResult sync = slot.sequence->Sync(turn->timeline(), turn->wants_logits());
  counts_.tokens_reused += static_cast<uint64_t>(sync.reused);
  counts_.rebuilds += sync.rebuilt || sync.source == CacheSource::kRecomputed ? 1 : 0;
  slot.turn = turn.get();
  slot.last_used = counts_.steps;
  turn->Begin(slot.sequence.get(), sync, tokenizer_, network_.vocab, SessionLimit(turn->request()),
              clock_.MonotonicNs());
  if (!turn->wants_logits() && turn->remaining() == 0) turn->FinishPrefill();
  running_.push_back(std::move(turn));
  return true;
}

void EngineLoop::AdmitWaiting() {
  bool slots_left = true;
  for (auto& turn : waiting_) {
    const auto known = timelines_.find(turn->timeline_id());
    const bool has_slot = known != timelines_.end() && known->second.sequence->has_cache();
    if (slots_left || has_slot) slots_left = Admit(turn) && slots_left;
  }
  std::erase(waiting_, nullptr);
}

void EngineLoop::Step() {
  std::vector<int64_t> remaining;
  for (const auto& turn : running_) remaining.push_back(turn->remaining());
  const SchedulerLimits limits{options_.step_tokens, options_.mixed_tokens, options_.prefill_chunk};
  const std::vector<int64_t> take = PlanStep(remaining, limits, first_++);

  std::vector<StepPart> parts;
  std::vector<RunningTurn*> turns;
  int64_t rows = 0;
  for (size_t i = 0; i < running_.size(); ++i) {
    if (take[i] == 0) continue;
    RunningTurn& turn = *running_[i];
    const std::span<const TokenId> chunk = turn.NextChunk(take[i]);
    const bool last = turn.wants_logits() && static_cast<int64_t>(chunk.size()) == turn.remaining();
    parts.push_back({turn.sequence()->cache(), chunk, last ? StepPart::Logits::kLast : StepPart::Logits::kNone});
    turns.push_back(&turn);
    rows += last ? 1 : 0;
    (turn.remaining() == 1 ? counts_.tokens_decoded : counts_.tokens_prefilled) += chunk.size();
  }
  logits_.resize(static_cast<size_t>(rows * network_.vocab));
  network_.run(parts, logits_);
  ++counts_.steps;

  const int64_t now = clock_.MonotonicNs();
  float* row = logits_.data();
  for (size_t i = 0; i < parts.size(); ++i) {
    turns[i]->Fed(parts[i].tokens);
    timelines_[turns[i]->timeline_id()].last_used = counts_.steps;
    if (parts[i].logits == StepPart::Logits::kLast) {
      turns[i]->Sample({row, static_cast<size_t>(network_.vocab)}, now);
      row += network_.vocab;
    } else if (turns[i]->remaining() == 0) {
      turns[i]->FinishPrefill();
    }
  }
}

void EngineLoop::RetireFinished() {
  for (auto& turn : running_) {
    if (!turn->finished()) continue;
    Slot& slot = timelines_[turn->timeline_id()];
    counts_.tokens_evicted += static_cast<uint64_t>(turn->evicted_since_begin());
    slot.turn = nullptr;
    turn->End(clock_.MonotonicNs());
    // Poisoned: nothing is known of the numbers that led to an error, so nothing of them is kept.
    if (*turn->finished() == FinishReason::kError) pool_.Release(slot.sequence->Detach());
    turn.reset();
  }
  std::erase(running_, nullptr);
}

void EngineLoop::End(std::unique_ptr<RunningTurn> turn, FinishReason reason, Status error) {
  turn->Finish(reason, std::move(error));
  turn->End(clock_.MonotonicNs());
}

}  // namespace ringside
