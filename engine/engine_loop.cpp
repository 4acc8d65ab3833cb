#include "engine/engine_loop.h"

#include <pthread.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/check.h"
#include "base/context_overflow.h"
#include "base/limits.h"
#include "base/log.h"
#include "kernels/slab_memory.h"

namespace ringside {
namespace {

// Limit of the additional pinned memory for snapshots in transit while the host tier is full; it applies where windows
// are long and the tier is small.
constexpr int64_t kMaxInTransitBytes = int64_t{4} << 30;
// Time per round that running turns wait for the memory of new turns: enough for that of a small cache.
constexpr int64_t kMemoryWaitUs = 1000;

}  // namespace

EngineLoop::EngineLoop(Network& network, const Tokenizer& tokenizer, const EngineOptions& options, KvPool pool,
                       const EngineStorage& storage, const Clock& clock, Driver driver)
    : network_(network),
      tokenizer_(tokenizer),
      options_(options),
      storage_(storage),
      clock_(clock),
      inbox_(std::make_shared<Inbox>(limits::kEngineInboxMessages)),
      pool_(std::move(pool)),
      has_branches_(network_.shape().branches && pool_.slots() > 1),
      queue_shares_(options_.queue_limit, pool_.slots()),
      sequence_storage_(storage_, network_.memory(), clock_, &counts_) {
  counts_.slots = pool_.slots();
  counts_.kv_bytes = pool_.memory_bytes();
  if (storage_.tiers != nullptr && storage_.pinned_bytes > 0) {
    // One or two snapshots in transit come on top of the host tier's contents.
    const int64_t on_its_way = std::min(2 * slot_bytes(), std::max(storage_.pinned_bytes, kMaxInTransitBytes));
    host_arena_.Start(network_.memory(), static_cast<size_t>(SnapshotChunkBytes(pool_.shape(), network_.memory())),
                      static_cast<size_t>(storage_.pinned_bytes + on_its_way));
  }
  PublishStats();
  if (driver == Driver::kCaller) {
    host_arena_.Wait();
    return;
  }
  thread_ = std::thread([this] { Run(); });
  pthread_setname_np(thread_.native_handle(), "engine");
}

EngineLoop::~EngineLoop() {
  host_arena_.Stop();
  inbox_->Close();
  thread_.joinable() ? thread_.join() : EndAll();
}

int64_t EngineLoop::SessionLimit(const TurnRequest& request) const {
  int64_t limit = request.session_len > 0 ? std::min(request.session_len, options_.session_len) : options_.session_len;
  const int64_t positions = network_.shape().position_limit;
  return positions > 0 ? std::min(limit, positions - network_.virtual_tokens(request.adapter)) : limit;
}

void EngineLoop::PrependVirtualTokens(TurnRequest* request) const {
  const int64_t count = request->virtual_tokens = network_.virtual_tokens(request->adapter);
  if (count == 0) return;
  std::vector<TokenId> ids(static_cast<size_t>(count));
  std::iota(ids.begin(), ids.end(), static_cast<TokenId>(network_.shape().vocab));
  request->tokens.insert(request->tokens.begin(), ids.begin(), ids.end());
  for (int64_t& start : request->message_starts) start += count;
  request->window.pinned += count;
}

Status EngineLoop::Check(const TurnRequest& request) const {
  if (request.sink == nullptr) return InvalidArgument("a turn needs a sink");
  if (request.owner.size() > TieredStore::kMaxOwnerBytes) return InvalidArgument("the owner's name is too long");
  if (request.tokens.empty()) return InvalidArgument("the input is empty", "input");
  if (request.adapter < 0 || request.adapter > network_.shape().adapters) {
    return InvalidArgument(fmt::format("there is no adapter {}", request.adapter), "model");
  }
  const auto length = static_cast<int64_t>(request.tokens.size());
  if (const int64_t limit = SessionLimit(request); length > limit) {
    return ContextOverflow{.limit = limit, .tokens = length}.ToStatus();
  }
  const int64_t vocab = network_.shape().vocab;
  const auto unknown =
      std::find_if(request.tokens.begin(), request.tokens.end(), [&](TokenId id) { return id < 0 || id >= vocab; });
  if (unknown != request.tokens.end()) return InvalidArgument(fmt::format("no token has the id {}", *unknown), "input");
  if (request.window.pinned < 0 || request.window.pinned > options_.pinned_max) {
    return InvalidArgument(fmt::format("pinned tokens must be 0 to {}", options_.pinned_max), "pinned");
  }
  if (network_.shape().encodes && (request.window.pinned == 0 || request.window.pinned >= length)) {
    return InvalidArgument("an encoder's input must be exactly the pinned tokens, with at least one token after it",
                           "pinned");
  }
  if (network_.shape().encodes && request.scored) {
    return InvalidArgument("prompt scoring is not available for an encoder's input", "logprobs", "unsupported_value");
  }
  if (request.window.memory_len < 1 || request.window.memory_len > options_.memory_len) {
    return InvalidArgument(fmt::format("memory_len must be 1 to {}", options_.memory_len), "memory_len");
  }
  if (request.max_tokens < -1) return InvalidArgument("max_tokens must not be negative", "max_output_tokens");
  if (request.scored && request.sampling.logprobs < 0)
    return InvalidArgument("prompt scoring requires `logprobs`", "logprobs");
  if (request.scored && length > request.window.memory_len + request.window.pinned) {
    return ContextOverflow{.limit = request.window.memory_len + request.window.pinned,
                           .tokens = length,
                           .prompt = true,
                           .advice = "Prompt scoring is limited to one window (--memory-len)."}
        .ToStatus();
  }
  if (request.scored && network_.virtual_tokens(request.adapter) > 0) {
    return InvalidArgument("prompt scoring is not available with a soft-prompt adapter", "logprobs",
                           "unsupported_value");
  }
  RETURN_IF_ERROR(CheckEmbedded(request));
  const auto& starts = request.message_starts;
  if (!std::is_sorted(starts.begin(), starts.end()) || (!starts.empty() && starts.front() < 0)) {
    return InvalidArgument("message starts must ascend", "message_starts");
  }
  return request.sampling.Validate(vocab);
}

Status EngineLoop::CheckEmbedded(const TurnRequest& request) const {
  if (!request.embedded) return Status::Ok();
  CHECK(request.max_tokens == 0 && !request.scored);
  if (network_.shape().hidden == 0) {
    return InvalidArgument("embeddings are not available for a model with an encoder", "model", "unsupported_value");
  }
  if (network_.virtual_tokens(request.adapter) > 0) {
    return InvalidArgument("embeddings are not available with a soft-prompt adapter", "model", "unsupported_value");
  }
  const int64_t shown = request.window.memory_len + request.window.pinned, length = std::ssize(request.tokens);
  if (length <= shown) return Status::Ok();
  return ContextOverflow{.limit = shown, .tokens = length, .prompt = true, .advice = "See --memory-len."}.ToStatus();
}

Status EngineLoop::CheckBeams(TurnRequest& request) const {
  const BeamParams& beams = request.sampling.beams;
  if (!beams.searches() || request.max_tokens == 0) return Status::Ok();
  if (!network_.shape().branches) {
    return InvalidArgument("beam search needs a network on one device, without an encoder", "beam_width",
                           "unsupported_value");
  }
  if (request.grammar != nullptr) {
    return InvalidArgument("beam search supports neither answer formats nor tools", "beam_width", "unsupported_value");
  }
  if (request.scored)
    return InvalidArgument("beam search does not return log probabilities", "logprobs", "unsupported_value");
  const auto length = static_cast<int64_t>(request.tokens.size());
  const RingWindow& window = request.window;
  const int64_t most = std::min(window.memory_len, limits::kMaxBeamTokens);
  if (request.max_tokens > most) {
    return InvalidArgument(fmt::format("with beam search an answer has at most {} tokens", most), "max_output_tokens",
                           "unsupported_value");
  }
  if (request.max_tokens < 0) request.max_tokens = most;
  request.max_tokens =
      std::min(request.max_tokens, std::max<int64_t>(1, SessionLimit(request) + request.virtual_tokens - length));
  if (length < window.pinned || pool_.shape().ring_rows() < window.memory_len + KvShape::kTile) {
    return InvalidArgument(
        "beam search needs a prompt longer than the pinned tokens, and a ring 16 rows longer than the window",
        "beam_width", "unsupported_value");
  }
  const int64_t bytes =
      pool_.BytesFor(window, length + request.max_tokens + 1) + (beams.width + 1) * BeamBytes(request.max_tokens);
  if (beams.width + 2 > pool_.slots() || bytes > pool_.memory_bytes()) {
    return InvalidArgument(
        fmt::format("{} beams of {} tokens take {} slots and {} bytes of caches; there are {} and {}", beams.width,
                    request.max_tokens, beams.width + 2, bytes, pool_.slots(), pool_.memory_bytes()),
        "beam_width", "unsupported_value");
  }
  return Status::Ok();
}

Status EngineLoop::Submit(TurnRequest request) {
  RETURN_IF_ERROR(Check(request));
  PrependVirtualTokens(&request);
  RETURN_IF_ERROR(CheckBeams(request));
  if (!healthy_) return Unavailable("the engine has failed");
  const std::string tenant = request.tenant;
  RETURN_IF_ERROR(queue_shares_.Enter(tenant));
  if (inbox_->TryPush(SubmitMessage{std::move(request), clock_.MonotonicNs()})) return Status::Ok();
  queue_shares_.Leave(tenant);
  return Overloaded("Too many turns have been submitted since the last step.");
}

EngineStats EngineLoop::stats() const {
  std::lock_guard lock(stats_mutex_);
  return stats_;
}

Status EngineLoop::status() const {
  std::lock_guard lock(stats_mutex_);
  return failure_;
}

void EngineLoop::PublishStats() {
  counts_.slots_used = pool_.used();
  counts_.kv_bytes_used = pool_.reserved_bytes();
  counts_.turns_running = static_cast<int64_t>(running_.size());
  counts_.turns_waiting = static_cast<int64_t>(waiting_.size());
  // Queued turns take every slot that becomes free.
  int64_t running_slots = 0;
  for (const auto& turn : running_) running_slots += 1 + turn->branches();
  queue_shares_.SetFreeSlots(waiting_.empty() ? pool_.slots() - running_slots : 0);
  std::lock_guard lock(stats_mutex_);
  stats_ = counts_;
}

void EngineLoop::Run() {
  network_.memory().MakeCurrent();
  host_arena_.Wait();
  while (!inbox_->closed()) Round(NextMessages());
  EndAll();
}

void EngineLoop::Round(std::vector<Message> messages) {
  sequence_storage_.BeginRound();
  for (Message& message : messages) Handle(std::move(message));
  for (const TimelineId timeline : std::exchange(unsettled_, {})) Settle(timeline);
  FinishCopies(/*wait=*/false);
  RetireFinished();
  const uint64_t asked = last_ticket_;
  AdmitWaiting();
  if (last_ticket_ != asked) {  // a fetch answered from host memory
    for (Message& message : inbox_->Drain(/*wait=*/false)) Handle(std::move(message));
    RetireFinished();
    AdmitWaiting();
  }
  PreemptChosen();
  RetireFinished();
  if (!running_.empty()) Step();
  RetireFinished();
  SaveIdle();
  WriteBackIdle();
  PublishStats();
  NotifyPositions();
}

void EngineLoop::EndAll() {
  FinishLaunchedStep();
  FinishCopies(/*wait=*/true);
  // Answer all pending requests; turns end below.
  for (Message& message : inbox_->Drain(/*wait=*/false)) Handle(std::move(message));
  for (auto& turn : running_) turn->Finish(FinishReason::kCancelled);
  RetireFinished();
  while (!waiting_.empty()) {
    End(std::move(waiting_.front()), FinishReason::kCancelled, {});
    waiting_.pop_front();
  }
}

std::optional<int64_t> EngineLoop::NextDueNs() const {
  const int64_t now = clock_.MonotonicNs();
  if (inbox_->size() > 0 || !unsettled_.empty()) return now;
  const bool copies = sequence_storage_.busy();
  // All running turns may wait for memory that is still being copied out.
  const bool steps = launched_ || std::ranges::any_of(running_, [&](const auto& turn) { return HasMemory(*turn); });
  if (steps || (!running_.empty() && !copies)) return now;
  // A copy does not signal completion: poll it.
  if (copies) return now + 50'000;
  std::optional<int64_t> next;
  const auto at = [&](int64_t due_ns) { next = std::min(next.value_or(due_ns), due_ns); };
  for (const auto& turn : waiting_) {
    const Slot& slot = timelines_.at(turn->timeline_id());
    // If no turn runs, there is a slot for each turn that does not wait for its cache.
    if (!IsFetching(slot)) return now;
    at(slot.fetch->deadline_ns);
  }
  if (storage_.tiers != nullptr) {
    for (const Slot* slot : cached_) {
      if (!slot->owner.empty() && !slot->busy()) at(slot->idle_since_ns + storage_.idle_ms * 1'000'000);
    }
    if (const Slot* next = NextToWriteBack(); next != nullptr) at(next->write_back_ns);
  }
  return next;
}

std::vector<EngineLoop::Message> EngineLoop::NextMessages() {
  const std::optional<int64_t> due = NextDueNs();
  if (!due) return inbox_->Drain(/*wait=*/true);
  constexpr int64_t kLongest = int64_t{3600} * 1'000'000'000;
  const int64_t wait = std::min(*due - clock_.MonotonicNs(), kLongest);
  return wait <= 0 ? inbox_->Drain(/*wait=*/false) : inbox_->DrainWithin(std::chrono::nanoseconds(wait));
}

void EngineLoop::Handle(Message message) {
  // Requests that drop caches or save those of running turns need the state after the last step, so finish that step
  // first.
  const bool disturbs = std::holds_alternative<CloseMessage>(message) ||
                        std::holds_alternative<EraseMessage>(message) || std::holds_alternative<ForkMessage>(message) ||
                        std::holds_alternative<SaveAllMessage>(message);
  if (disturbs) {
    FinishLaunchedStep();
    RetireFinished();
  }
  std::visit([this](auto&& m) { Handle(std::move(m)); }, std::move(message));
}

void EngineLoop::Handle(SubmitMessage message) {
  auto turn = std::make_unique<RunningTurn>(std::move(message.request), message.submitted_ns);
  served_.Enter(turn->request().tenant);
  if (!healthy_) return End(std::move(turn), FinishReason::kError, Unavailable("the engine has failed"));
  Slot& slot = timelines_[turn->timeline_id()];
  slot.id = turn->timeline_id();
  if (slot.sequence == nullptr)
    slot.sequence =
        std::make_unique<Sequence>(network_.shape().layers, options_.rebuild_windows, network_.shape().encodes);
  if (turn->request().continues) slot.sequence->MarkKnown();
  slot.parked = false;
  ++slot.waiting;
  waiting_.push_back(std::move(turn));
}

void EngineLoop::Handle(CancelMessage message) {
  for (auto& turn : running_) {
    if (turn->id() == message.turn) turn->Finish(FinishReason::kCancelled);
  }
  const auto found = std::find_if(waiting_.begin(), waiting_.end(), [&](auto& t) { return t->id() == message.turn; });
  if (found == waiting_.end()) return;
  const TimelineId timeline = (*found)->timeline_id();
  End(std::move(*found), FinishReason::kCancelled, {});
  waiting_.erase(found);
  --timelines_.at(timeline).waiting;
  Settle(timeline);
}

void EngineLoop::Handle(CloseMessage message) {
  const auto found = timelines_.find(message.timeline);
  if (found == timelines_.end()) return;
  Slot& slot = found->second;
  for (auto& turn : waiting_) {
    if (turn->timeline_id() == message.timeline) End(std::move(turn), FinishReason::kCancelled, {});
  }
  std::erase(waiting_, nullptr);
  slot.waiting = 0;
  slot.parked = false;
  if (slot.turn != nullptr) {
    slot.turn->Finish(FinishReason::kCancelled);
    RetireFinished();
  }
  CancelFetch(slot);
  if (slot.sequence->has_cache()) DropCache(slot);
  timelines_.erase(found);
}

bool EngineLoop::Admit(std::unique_ptr<RunningTurn>& turn) {
  Slot& slot = timelines_.at(turn->timeline_id());
  if (slot.turn != nullptr) {
    --slot.waiting;
    End(std::move(turn), FinishReason::kError, Status(StatusCode::kBusy, "the conversation is answering another turn"));
    return true;
  }
  if (BranchOf(slot) != nullptr) return false;  // they must end first: the turn may overwrite rows that they see
  if (HasMuchLongerDonor(slot, *turn)) DropCache(slot);
  std::optional<double> restore_ms;
  const bool restores = !slot.filled();
  Slot* const history = restores ? FindHistory(slot, *turn) : nullptr;
  if (restores) {
    Slot* donor = history != nullptr ? history : FindDonor(slot, *turn);
    if (donor != nullptr) donor->last_used = counts_.steps;  // others may share it, too
  }
  const bool has_source = HasSourceInSlot(turn->request());
  if (Status given = AllocateMemory(slot, *turn, history); !given.ok()) {
    if (given.code() == StatusCode::kOverloaded) return false;
    --slot.waiting;
    End(std::move(turn), FinishReason::kError, std::move(given));
    return true;
  }
  if (has_source && !HasSourceInSlot(turn->request()) && turn->branches() == 0) {
    DropCache(slot);  // it took the source's slot: the tiers have the cache now
    return false;
  }
  if (restores && history == nullptr && !IsMemoryCommitted(slot, *turn)) {
    slot.unfilled = true;
    return false;
  }
  slot.unfilled = false;
  if (history != nullptr) {
    BranchOff(slot, *turn, *history);
  } else if (restores) {
    restore_ms = FillCache(slot, *turn);
  }
  slot.tenant = turn->request().tenant;
  slot.continued |= turn->request().continues && turn->request().forked_from == 0;
  --slot.waiting;
  queue_shares_.Admit(slot.tenant);
  CancelFetch(slot);
  SetOwner(slot, turn->request().owner);
  SyncResult sync = slot.sequence->Sync(turn->timeline(), turn->max_reusable());
  const bool restored = sync.source == CacheSource::kHost || sync.source == CacheSource::kDisk;
  if (restored) sync.restore_ms = restore_ms.value_or(0);
  counts_.tokens_reused += static_cast<uint64_t>(sync.reused);
  counts_.rebuilds += sync.rebuilt || sync.source == CacheSource::kRecomputed ? 1 : 0;
  slot.turn = turn.get();
  slot.steps = slot.prompt_steps = 0;
  slot.eviction = EvictionMode::kNo;
  slot.last_used = counts_.steps;
  if (turn->begun()) {
    turn->ResumeAfterPreemption(sync);
  } else {
    turn->Begin(slot.sequence.get(), sync, tokenizer_, network_.shape().vocab,
                SessionLimit(turn->request()) + turn->request().virtual_tokens, clock_.MonotonicNs());
  }
  if (!turn->wants_logits() && turn->remaining() == 0) turn->FinishPrefill();
  running_.push_back(std::move(turn));
  return true;
}

void EngineLoop::AdmitWaiting() {
  preempted_.clear();
  expected_.clear();
  if (waiting_.empty()) return;
  unplaced_turns_ = unplaced_bytes_ = 0;
  no_victim_ = false;
  memory_wait_us_ = kMemoryWaitUs;
  OrderWaiting();
  const int64_t now = clock_.MonotonicNs();
  for (auto& turn : waiting_) {
    Slot& slot = timelines_.at(turn->timeline_id());
    RequestCache(slot, turn->request());
    if (IsFetching(slot) || (!no_victim_ && ShouldAwaitPrefix(slot, *turn))) continue;
    if ((no_victim_ && !slot.sequence->has_cache()) || !Admit(turn)) turn->NoteNoSlot(now);
  }
  std::erase(waiting_, nullptr);
}

void EngineLoop::NotifyPositions() {
  int64_t position = 0;
  for (const auto& turn : waiting_) {
    ++position;
    // A turn that waits for its cache has a slot reserved, as far as is known.
    if (!IsFetching(timelines_.at(turn->timeline_id()))) turn->NotifyPosition(position);
  }
}

void EngineLoop::Handle(PingMessage message) {
  if (const Status device = network_.memory().status(); !device.ok()) Fail(device);
  message.alive();
}

void EngineLoop::Fail(const Status& status) {
  if (!healthy_) return;
  LogError("the engine has failed and refuses all turns: {}", status.message());
  {
    std::lock_guard lock(stats_mutex_);
    failure_ = status;
  }
  healthy_ = false;
  for (auto& turn : running_) turn->Finish(FinishReason::kError, status);
  for (auto& turn : waiting_) {
    --timelines_.at(turn->timeline_id()).waiting;
    End(std::move(turn), FinishReason::kError, status);
  }
  waiting_.clear();
}

void EngineLoop::RetireFinished() {
  std::vector<std::pair<Slot*, bool>> ended;  // and whether its rows are valid
  for (auto& turn : running_) {
    if (!turn->finished() || (launched_ && launched_->Has(turn.get()))) continue;
    Slot& slot = timelines_.at(turn->timeline_id());
    const bool sound = *turn->finished() != FinishReason::kError;
    for (KvCache* branch : turn->DetachBranches(/*keep=*/sound)) pool_.Release(branch);
    counts_.tokens_evicted += static_cast<uint64_t>(turn->evicted_since_begin());
    slot.turn = nullptr;
    slot.idle_since_ns = clock_.MonotonicNs();
    slot.write_back_ns = slot.idle_since_ns + storage_.write_back_ms * 1'000'000;
    turn->End(slot.idle_since_ns);
    served_.Leave(turn->request().tenant);
    ended.emplace_back(&slot, sound);
    turn.reset();
  }
  std::erase(running_, nullptr);
  for (const auto& [slot, sound] : ended) {
    // Drop the cache of a turn that ended in an error, from the tiers too, because its rows may be wrong. (If the
    // device itself failed, the copy in the tiers is older and intact.) Also drop a branch: its history may change.
    const bool cached = slot->sequence->has_cache();
    if (cached && (!sound || slot->sequence->cache()->history() != nullptr)) DropCache(*slot);
    if (!sound && storage_.tiers != nullptr && !slot->owner.empty() && healthy_) {
      storage_.tiers->Erase(slot->owner, nullptr);
    }
    if (slot->sequence->has_cache()) pool_.Settle(slot->sequence->cache());
  }
  for (const auto& [slot, sound] : ended) Settle(slot->id);
  // After a device failure no slot is valid: conversations continue from the tiers.
  while (!healthy_ && running_.empty() && !cached_.empty()) DropCache(*cached_.front());
}

void EngineLoop::End(std::unique_ptr<RunningTurn> turn, FinishReason reason, Status error) {
  queue_shares_.Leave(turn->request().tenant);
  turn->Finish(reason, std::move(error));
  turn->End(clock_.MonotonicNs());
  served_.Leave(turn->request().tenant);
}

}  // namespace ringside
