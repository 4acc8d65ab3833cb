#include "engine/loop/engine_loop.h"

#include <fmt/format.h>
#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <set>
#include <utility>

#include "base/limits.h"
#include "base/log.h"
#include "kernels/slab_memory.h"

namespace ringside {
namespace {

// Limit of the additional pinned memory for snapshots in transit while the host tier is full; it applies where windows
// are long and the tier is small.
constexpr int64_t kMaxInTransitBytes = int64_t{4} << 30;

}  // namespace

EngineLoop::EngineLoop(Network& network, const Tokenizer& tokenizer, const EngineOptions& options, KvPool pool,
                       const EngineStorage& storage, const Clock& clock, Driver driver)
    : network_(network),
      options_(options),
      storage_(storage),
      clock_(clock),
      inbox_(std::make_shared<EngineInbox>(limits::kEngineInboxMessages)),
      slots_(std::move(pool), network_.shape(), options_, storage_.tiers),
      limits_(network_, options_, slots_.pool()),
      queue_(options_.queue_limit, options_.max_wait_s, slots_.pool().slots(), clock_),
      sequences_(storage_, network_.memory(), clock_, &counts_),
      steps_(network_, options_, clock_, slots_, sequences_, queue_.served(), &counts_),
      fetches_(storage_, network_.shape(), clock_, slots_, queue_, sequences_, &counts_,
               [inbox = inbox_](FetchedMessage message) { inbox->PushUrgent(std::move(message)); }),
      eviction_(storage_, clock_, slots_, queue_, fetches_, sequences_, &counts_,
                [this] {
                  if (!steps_.in_flight()) return;
                  FinishLaunchedStep();
                  RetireFinished();
                }),
      full_save_(storage_, slots_, eviction_, sequences_, &counts_, inbox_),
      prefixes_(network_.memory(), slots_, fetches_, sequences_, &counts_),
      admission_({network_, tokenizer, options_, clock_, limits_, slots_, queue_, fetches_, prefixes_, eviction_,
                  sequences_, counts_}),
      memory_(slots_, eviction_) {
  const KvPool& lent = slots_.pool();
  counts_.slots = lent.slots();
  counts_.kv_bytes = lent.memory_bytes();
  if (storage_.tiers != nullptr && storage_.pinned_bytes > 0) {
    // One or two snapshots in transit come on top of the host tier's contents.
    const int64_t on_its_way = std::min(2 * slot_bytes(), std::max(storage_.pinned_bytes, kMaxInTransitBytes));
    host_arena_.Start(network_.memory(), static_cast<size_t>(SnapshotChunkBytes(lent.shape(), network_.memory())),
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

ExpectedPrompt EngineLoop::Expect(const TurnRequest& request) const {
  return fetches_.Expect(request, queue_.waits().forecast().ns_per_token());
}

Status EngineLoop::CheckWait(const TurnRequest& request) {
  if (request.admitted || !queue_.waits().has_limit()) return Status::Ok();
  return queue_.waits().Check(request.tenant, Expect(request), clock_.MonotonicNs());
}

bool EngineLoop::MayAdmit(const TurnRequest& request) const {
  return request.admitted || !queue_.waits().has_limit() || queue_.waits().Admits(request.tenant, Expect(request));
}

EngineStats EngineLoop::stats() const {
  EngineStats stats = status_.stats();
  queue_.waits().AddTo(&stats);
  return stats;
}

Status EngineLoop::Submit(TurnRequest request) {
  RETURN_IF_ERROR(limits_.Accept(&request));
  if (!healthy()) return Unavailable("the engine has failed");
  const std::string tenant = request.tenant;
  RETURN_IF_ERROR(queue_.shares().Enter(tenant));
  const int64_t tokens = request.expected_tokens = Expect(request).tokens;
  queue_.waits().forecast().Arrive(tenant, tokens);
  if (inbox_->TryPush(SubmitMessage{std::move(request), clock_.MonotonicNs()})) return Status::Ok();
  queue_.shares().Leave(tenant);
  queue_.waits().forecast().Withdraw(tenant, tokens);
  return Overloaded("Too many turns have been submitted since the last step.");
}

void EngineLoop::Erase(TimelineId timeline, std::string owner, Engine::Done done) {
  const auto stopped = done;
  if (!inbox_->PushUrgent(EraseMessage{timeline, std::move(owner), std::move(done)})) {
    NotifyDone(stopped, Unavailable("the engine has stopped"));
  }
}

void EngineLoop::Fork(TimelineId from, TimelineId to, std::string from_owner, std::string to_owner) {
  inbox_->PushUrgent(ForkMessage{from, to, std::move(from_owner), std::move(to_owner)});
}

void EngineLoop::SaveAll(Engine::Done done) {
  const auto saving = std::make_shared<FullSaveState>();
  saving->done = std::move(done);
  if (!inbox_->PushUrgent(SaveAllMessage{saving})) NotifyDone(saving->done, Unavailable("the engine has stopped"));
}

std::optional<CacheSource> EngineLoop::Where(const std::string& owner) const {
  if (healthy() && slots_.HoldsOwner(owner)) return CacheSource::kSlot;
  if (storage_.tiers == nullptr) return std::nullopt;
  const auto place = storage_.tiers->Find(owner);
  if (!place) return std::nullopt;
  return place->tier == StorageTier::kHost ? CacheSource::kHost : CacheSource::kDisk;
}

void EngineLoop::PublishStats() {
  const KvPool& pool = slots_.pool();
  counts_.slots_used = pool.used();
  counts_.kv_bytes_used = pool.reserved_bytes();
  counts_.kv_bytes_shared = pool.shared_bytes();
  counts_.turns_running = std::ssize(slots_.running());
  counts_.turns_waiting = std::ssize(queue_.turns());
  const int64_t free_slots = pool.slots() - slots_.running_slots();
  // Queued turns take every slot that becomes free.
  queue_.shares().SetFreeSlots(queue_.empty() ? free_slots : 0);
  queue_.PublishWaits(slots_.running(), steps_.NsPerPromptToken(), admission_.is_full() ? 0 : free_slots);
  status_.Publish(counts_);
}

void EngineLoop::Run() {
  network_.memory().MakeCurrent();
  host_arena_.Wait();
  while (!inbox_->closed()) Round(NextMessages());
  EndAll();
}

void EngineLoop::Round(std::vector<EngineMessage> messages) {
  sequences_.BeginRound();
  for (EngineMessage& message : messages) Handle(std::move(message));
  eviction_.SettleDeferred();
  eviction_.FinishCopies(/*wait=*/false);
  RetireFinished();
  const uint64_t asked = fetches_.requests();
  admission_.AdmitWaiting();
  if (fetches_.requests() != asked) {  // a fetch answered from host memory
    for (EngineMessage& message : inbox_->Drain(/*wait=*/false)) Handle(std::move(message));
    RetireFinished();
    admission_.AdmitWaiting();
  }
  if (admission_.has_victims()) {
    FinishLaunchedStep();
    RetireFinished();  // a chosen turn may have ended
    admission_.PreemptVictims();
  }
  RetireFinished();
  if (!slots_.running().empty()) Step();
  RetireFinished();
  eviction_.SaveIdle();
  eviction_.WriteBackIdle();
  PublishStats();
  NotifyPositions();
}

void EngineLoop::EndAll() {
  FinishLaunchedStep();
  eviction_.FinishCopies(/*wait=*/true);
  // Answer all pending requests; turns end below.
  for (EngineMessage& message : inbox_->Drain(/*wait=*/false)) Handle(std::move(message));
  for (const auto& turn : slots_.running()) turn->Finish(FinishReason::kCancelled);
  RetireFinished();
  while (!queue_.empty()) queue_.End(queue_.Pop(), FinishReason::kCancelled, {});
}

std::optional<int64_t> EngineLoop::NextDueNs() const {
  const int64_t now = clock_.MonotonicNs();
  if (inbox_->size() > 0 || eviction_.has_deferred()) return now;
  const bool copies = sequences_.busy();
  // All running turns may wait for memory that is still being copied out.
  const bool steps = steps_.in_flight() || slots_.AnyHasMemory();
  if (steps || (!slots_.running().empty() && !copies)) return now;
  // A copy does not signal completion: poll it.
  if (copies) return now + 50'000;
  return NextIdleDueNs(now);
}

std::optional<int64_t> EngineLoop::NextIdleDueNs(int64_t now) const {
  std::optional<int64_t> next;
  const auto at = [&](int64_t due_ns) { next = std::min(next.value_or(due_ns), due_ns); };
  for (const auto& turn : queue_.turns()) {
    const Slot& slot = slots_.At(turn->timeline_id());
    // If no turn runs, there is a slot for each turn that does not wait for its cache.
    if (!fetches_.IsFetching(slot)) return now;
    at(slot.fetch->deadline_ns);
  }
  if (storage_.tiers == nullptr) return next;
  for (const Slot* slot : slots_.cached()) {
    if (!slot->owner.empty() && !slot->busy()) at(slot->idle_since_ns + storage_.idle_ms * 1'000'000);
  }
  if (const Slot* slot = eviction_.NextToWriteBack(); slot != nullptr) at(slot->write_back_ns);
  return next;
}

std::vector<EngineMessage> EngineLoop::NextMessages() {
  const std::optional<int64_t> due = NextDueNs();
  if (!due) return inbox_->Drain(/*wait=*/true);
  constexpr int64_t kLongest = int64_t{3600} * 1'000'000'000;
  const int64_t wait = std::min(*due - clock_.MonotonicNs(), kLongest);
  return wait <= 0 ? inbox_->Drain(/*wait=*/false) : inbox_->DrainWithin(std::chrono::nanoseconds(wait));
}

void EngineLoop::Handle(EngineMessage message) {
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
  std::unique_ptr<RunningTurn> turn = MakeTurn(std::move(message.request), message.submitted_ns);
  queue_.Arrive(*turn);
  if (!healthy()) return queue_.End(std::move(turn), FinishReason::kError, Unavailable("the engine has failed"));
  Slot& slot = slots_.FindOrAdd(turn->timeline_id());
  if (turn->request().continues) slot.sequence->MarkKnown();
  slot.parked = false;
  ++slot.waiting;
  queue_.Push(std::move(turn));
}

void EngineLoop::Handle(CancelMessage message) {
  for (const auto& turn : slots_.running()) {
    if (turn->id() == message.turn) turn->Finish(FinishReason::kCancelled);
  }
  std::unique_ptr<RunningTurn> turn = queue_.Remove(message.turn);
  if (turn == nullptr) return;
  const TimelineId timeline = turn->timeline_id();
  queue_.End(std::move(turn), FinishReason::kCancelled, {});
  --slots_.At(timeline).waiting;
  eviction_.Settle(timeline);
}

void EngineLoop::Handle(CloseMessage message) {
  Slot* slot = slots_.Find(message.timeline);
  if (slot == nullptr) return;
  for (auto& turn : queue_.turns()) {
    if (turn->timeline_id() == message.timeline) queue_.End(std::move(turn), FinishReason::kCancelled, {});
  }
  queue_.Compact();
  slot->waiting = 0;
  slot->parked = false;
  if (slot->turn != nullptr) {
    slot->turn->Finish(FinishReason::kCancelled);
    RetireFinished();
  }
  fetches_.Cancel(*slot);
  if (slot->sequence->has_cache()) eviction_.Drop(*slot);
  slots_.Forget(message.timeline);
}

void EngineLoop::Handle(ParkMessage message) {
  Slot* slot = slots_.Find(message.timeline);
  if (slot == nullptr) return;
  slot->parked = true;
  eviction_.Settle(message.timeline);
}

void EngineLoop::Handle(EraseMessage message) {
  // A conversation that was parked and resumed has a new timeline id.
  std::set<TimelineId> timelines{message.timeline};
  for (const Slot* slot : slots_.cached()) {
    if (slot->owner == message.owner) timelines.insert(slot->id);
  }
  for (const auto& turn : queue_.turns()) {
    if (turn->request().owner == message.owner) timelines.insert(turn->timeline_id());
  }
  if (message.owner.empty()) timelines = {message.timeline};
  for (const TimelineId timeline : timelines) Handle(CloseMessage{timeline});
  if (!message.owner.empty()) sequences_.Forget(message.owner, nullptr);
  fetches_.DropForks(message.owner);
  if (storage_.tiers == nullptr || !IsTierOwner(message.owner)) return NotifyDone(message.done, Status::Ok());
  storage_.tiers->Erase(std::move(message.owner), std::move(message.done));
}

void EngineLoop::Handle(PingMessage message) {
  if (const Status device = network_.memory().status(); !device.ok()) Fail(device);
  message.alive();
}

void EngineLoop::NotifyPositions() {
  int64_t position = 0;
  for (const auto& turn : queue_.turns()) {
    ++position;
    // A turn that waits for its cache has a slot reserved, as far as is known.
    if (!fetches_.IsFetching(slots_.At(turn->timeline_id()))) turn->NotifyPosition(position);
  }
}

template <class Call>
void EngineLoop::FailIfThrows(Call call) {
  try {
    call();
  } catch (const std::exception& error) {
    steps_.Discard();
    Fail(Unavailable(fmt::format("a step has failed: {}", error.what())));
  }
}

void EngineLoop::Step() {
  FailIfThrows([this] {
    if (!steps_.in_flight()) {
      memory_.Grow();
      RetireFinished();  // turns that the device refused memory
      if (slots_.AnyHasMemory()) steps_.Launch();
    }
    if (!steps_.in_flight()) return;
    if (steps_.MayRunAhead() && memory_.GrowAhead()) steps_.LaunchAhead();
    if (const Status finished = steps_.Finish(); !finished.ok()) Fail(finished);
    steps_.Advance();
  });
}

void EngineLoop::FinishLaunchedStep() {
  if (!steps_.in_flight()) return;
  FailIfThrows([this] {
    if (const Status finished = steps_.Finish(); !finished.ok()) Fail(finished);
  });
  steps_.Discard();
}

void EngineLoop::Fail(const Status& status) {
  if (!healthy()) return;
  LogError("the engine has failed and refuses all turns: {}", status.message());
  status_.Fail(status);
  for (const auto& turn : slots_.running()) turn->Finish(FinishReason::kError, status);
  while (!queue_.empty()) {
    std::unique_ptr<RunningTurn> turn = queue_.Pop();
    --slots_.At(turn->timeline_id()).waiting;
    queue_.End(std::move(turn), FinishReason::kError, status);
  }
}

std::pair<Slot*, bool> EngineLoop::Retire(std::unique_ptr<RunningTurn> turn) {
  Slot& slot = slots_.At(turn->timeline_id());
  const bool sound = *turn->finished() != FinishReason::kError;
  for (KvCache* branch : turn->DetachBranches(/*keep=*/sound)) slots_.pool().Release(branch);
  counts_.tokens_evicted += static_cast<uint64_t>(turn->evicted_since_begin());
  slot.turn = nullptr;
  slot.idle_since_ns = clock_.MonotonicNs();
  slot.write_back_ns = slot.idle_since_ns + storage_.write_back_ms * 1'000'000;
  turn->End(slot.idle_since_ns);
  queue_.waits().NoteHeld(slot.idle_since_ns - turn->clock().begun_ns());
  queue_.Retire(*turn);
  return {&slot, sound};
}

void EngineLoop::RetireFinished() {
  std::vector<std::pair<Slot*, bool>> ended;
  for (auto& turn :
       slots_.TakeRunning([this](const RunningTurn& turn) { return turn.finished() && !steps_.Includes(turn); })) {
    ended.push_back(Retire(std::move(turn)));
  }
  for (const auto& [slot, sound] : ended) {
    // Drop the cache of a turn that ended in an error, from the tiers too, because its rows may be wrong. (If the
    // device itself failed, the copy in the tiers is older and intact.) Also drop a branch: its history may change.
    const bool cached = slot->sequence->has_cache();
    if (cached && (!sound || slot->sequence->cache()->history() != nullptr)) eviction_.Drop(*slot);
    if (!sound && storage_.tiers != nullptr && !slot->owner.empty() && healthy()) {
      storage_.tiers->Erase(slot->owner, nullptr);
    }
    if (slot->sequence->has_cache()) slots_.pool().Settle(slot->sequence->cache());
  }
  for (const auto& [slot, sound] : ended) eviction_.Settle(slot->id);
  // After a device failure no slot is valid: conversations continue from the tiers.
  while (!healthy() && slots_.running().empty() && !slots_.cached().empty()) eviction_.Drop(*slots_.cached().front());
}

}  // namespace ringside
