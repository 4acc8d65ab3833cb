#include "session/session.h"

#include <algorithm>
#include <atomic>
#include <future>

#include "base/defect.h"
#include "base/worker_pool.h"
#include "cache/store/tiered_store.h"
#include "session/image_records.h"

namespace ringside {
namespace {

Status ConversationLocked() {
  return {StatusCode::kBusy, "A response is running on this conversation. Wait for it to end, or cancel it.",
          "conversation", "conversation_locked"};
}

}  // namespace

SessionInfo Describe(const SessionSummary& summary, const SessionTableOptions& options) {
  SessionInfo info;
  info.created_at = summary.created_at;
  info.metadata = summary.metadata;
  info.items = summary.items;
  info.tokens = summary.tokens;
  info.position = summary.position;
  info.pinned = std::min(summary.pinned, options.pinned_max);
  info.tokens_evicted = summary.tokens_evicted;
  // The session's own setting stays stored and is clamped here.
  info.memory_len = std::min(summary.window.memory_len.value_or(options.memory_len), options.memory_len);
  info.session_len = std::min(summary.window.session_len.value_or(options.session_len), options.session_len);
  info.eviction = summary.window.eviction.value_or(options.eviction);
  info.adapter = summary.window.adapter;
  info.model = summary.window.model;
  info.updated_at = summary.updated_at;
  info.epoch = summary.epoch;
  return info;
}

int64_t SessionTableOptions::request_len() const {
  const int64_t shown = encoder ? pinned_max : memory_len + std::min(kPinnedWithoutSystem, pinned_max);
  const int64_t most = std::min(shown, session_len);
  return max_input_tokens > 0 ? std::min(most, max_input_tokens) : most;
}

int64_t SessionTableOptions::usual_answer() const {
  if (max_output_tokens >= 0) return max_output_tokens;
  const int64_t shown = std::min(memory_len + pinned_max, session_len);
  return max_output_tokens_limit > 0 ? std::min(shown, max_output_tokens_limit) : shown;
}

std::optional<int> SessionTableOptions::NumberOfAdapter(std::string_view name) const {
  if (name.empty()) return 0;
  const auto found = std::ranges::find(adapters, name);
  if (found == adapters.end()) return std::nullopt;
  return static_cast<int>(found - adapters.begin()) + 1;
}

uint64_t NextEngineId() {
  static std::atomic<uint64_t> next{0};
  return ++next;
}

Session::Session(std::shared_ptr<const SessionContext> context, std::string key, std::string owner, Metadata metadata,
                 WindowOverrides window)
    : context_(std::move(context)),
      key_(std::move(key)),
      id_(key_.starts_with("conv_") ? key_ : ""),
      owner_(std::move(owner)),
      renderer_(context_, window),
      conversation_{.created_at = context_->clock.WallSeconds(),
                    .used_s = context_->uptime_s(),
                    .metadata = std::move(metadata),
                    .adapter = window.adapter,
                    .model = window.model,
                    .epoch = context_->shared->epoch,
                    .first_epoch = context_->shared->epoch},
      journal_(context_, key_, owner_),
      turns_(context_, key_, owner_, &conversation_, &journal_,
             {.finished =
                  [this] {
                    CountBytes();
                    if (found_by_history_) context_->shared->histories.Add(weak_from_this());
                  },
              .changed = [this] { ChangedLocked(); }}),
      owners_bytes_(context_->shared->bytes_by_owner.Of(owner_)) {
  conversation_.updated_at = conversation_.created_at;
  journal_.SetModel(conversation_.model);
  CountBytes();
}

Session::~Session() {
  context_->shared->bytes -= bytes_;
  *owners_bytes_ -= bytes_;
  if (engine_timeline_ != 0) context_->shared->retired.Add({engine_timeline_, journal_.durable()});
}

void Session::CountBytes() {
  int64_t bytes =
      static_cast<int64_t>(sizeof(Session)) + conversation_.timeline.bytes() + conversation_.responses.bytes();
  for (const auto& [key, value] : conversation_.metadata) bytes += static_cast<int64_t>(key.size() + value.size());
  context_->shared->bytes += bytes - bytes_;
  *owners_bytes_ += bytes - bytes_;
  bytes_ = bytes;
}

WindowOverrides Session::window() const {
  std::lock_guard lock(mutex_);
  return Summary(0).window;
}

bool Session::durable() const {
  std::lock_guard lock(mutex_);
  return journal_.durable();
}

std::string Session::cache_owner() const {
  std::lock_guard lock(mutex_);
  return CacheOwner(false);
}

std::string Session::CacheOwner(bool stores) const {
  const bool named =
      journal_.durable() || stores || context_->journal == nullptr || key_.starts_with(TieredStore::kMemoryOnly);
  return named ? key_ : "";
}

void Session::Leave(Left why) {
  std::lock_guard lock(mutex_);
  turns_.listeners().Leave(id_, why == Left::kDeleted ? &EventSink::OnGone : &EventSink::OnTakenOver);
  if (why == Left::kDeleted) journal_.Erased();
}

bool Session::idle(bool may_be_attached) const {
  std::lock_guard lock(mutex_);
  return !turns_.running() && !changing_ && (may_be_attached || !turns_.listeners().attached());
}

SessionInfo Session::Info() const {
  std::lock_guard lock(mutex_);
  SessionInfo info = Describe(Summary(journal_.recorded().seq), context_->options);
  info.id = id_;
  info.instructions = conversation_.timeline.head().instructions;
  info.durable = journal_.durable();
  info.recorded = journal_.recorded();
  info.shares = conversation_.shares;
  if (turns_.running()) info.active_response_id = turns_.running()->response->id;
  return info;
}

SharedList<Item> Session::Items() const {
  std::lock_guard lock(mutex_);
  return conversation_.timeline.items();
}

SharedText Session::Tools() const {
  std::lock_guard lock(mutex_);
  return conversation_.timeline.head().tools;
}

TimelineId Session::engine_timeline() const {
  std::lock_guard lock(mutex_);
  return engine_timeline_;
}

RingWindow Session::cache_window() const {
  std::lock_guard lock(mutex_);
  return engine_timeline_ != 0 ? engine_window_ : renderer_.Window(conversation_.timeline.pinned());
}

void Session::Adopt(Timeline timeline, TimelineId engine_timeline, const RingWindow& window) {
  std::lock_guard lock(mutex_);
  conversation_.timeline = std::move(timeline);
  engine_timeline_ = engine_timeline;
  engine_window_ = window;
  CountBytes();
}

Status Session::CheckFree(uint64_t connection) const {
  if (turns_.listeners().Fenced(connection) && !RINGSIDE_DEFECT("superseded_accepted")) {
    return {StatusCode::kBusy, "Another connection has resumed this conversation since.", "conversation", "superseded"};
  }
  return turns_.running() || changing_ ? ConversationLocked() : Status::Ok();
}

SessionSummary Session::Summary(uint64_t seq) const {
  WindowOverrides window = renderer_.window();
  window.adapter = conversation_.adapter;
  window.model = conversation_.model;
  return {.owner = owner_,
          .created_at = conversation_.created_at,
          .updated_at = conversation_.updated_at,
          .seq = seq,
          .metadata = conversation_.metadata,
          .window = std::move(window),
          .items = static_cast<int64_t>(conversation_.timeline.items().size()),
          .tokens = static_cast<int64_t>(conversation_.timeline.tokens().size()),
          .position = conversation_.report.position,
          .pinned = conversation_.timeline.pinned(),
          .tokens_evicted = conversation_.report.tokens_evicted,
          .epoch = conversation_.epoch,
          .used_s = conversation_.used_s};
}

void Session::Changed() {
  std::lock_guard lock(mutex_);
  ChangedLocked();
}

void Session::ChangedLocked() {
  if (journal_.SetChanged()) context_->shared->changed.Add(weak_from_this());
}

void Session::WriteSummary(bool last) {
  std::lock_guard lock(mutex_);
  if (!journal_.changed()) return;
  journal_.ClearChanged();
  if (!journal_.durable() || turns_.running()) return;
  if (changing_) return ChangedLocked();
  JournalEntry entry;
  entry.session = key_;
  SetSummary(Summary(journal_.recorded().seq), &entry);
  entry.urgent = last;
  // Under the lock, so that no turn's summary comes first. While it is missing, a list reads the whole session.
  const Status accepted = context_->journal->Append(std::move(entry), nullptr);
  if (accepted.code() == StatusCode::kOverloaded) ChangedLocked();
}

std::vector<JournalRecord> Session::CreationRecords() const {
  WindowOverrides window = renderer_.window();
  window.model = conversation_.model;
  std::vector<JournalRecord> records = {
      Encode(CreatedRecord{owner_, conversation_.created_at, conversation_.metadata, std::move(window),
                           conversation_.epoch, context_->codec_name})};
  if (!conversation_.timeline.items().empty() || conversation_.timeline.head().instructions) {
    TimelinePatch patch = conversation_.timeline.PatchFrom(Timeline());
    for (JournalRecord& image : ImageRecords(patch, Timeline())) records.push_back(std::move(image));
    records.push_back(Encode(TimelineRecord{std::move(patch), false}));
  }
  return records;
}

Status Session::Commit(std::unique_lock<std::mutex>& lock, std::vector<JournalRecord> records, bool create,
                       const std::function<void()>& apply) {
  if (!journal_.durable() && !create) {
    apply();
    return Status::Ok();
  }
  JournalEntry entry;
  entry.session = key_;
  entry.create = create;
  entry.records = std::move(records);
  if (create) SetSummary(Summary(entry.records.size()), &entry);
  const auto told = std::make_shared<std::promise<Status>>();
  // Applied on the journal's thread, so that changes take effect in the journal's order.
  const auto done = [&, told](const Status& status, const JournalPosition& last) {
    if (status.ok()) {
      std::lock_guard relock(mutex_);
      journal_.SetRecorded(last);
      apply();
      if (!create) ChangedLocked();
    }
    told->set_value(status);
  };
  lock.unlock();
  const Status status = [&]() -> Status {
    ASSIGN_OR_RETURN(const DiskWait wait, DiskWait::Begin());
    RETURN_IF_ERROR(context_->journal->Append(std::move(entry), done));
    return told->get_future().get();
  }();
  lock.lock();
  return status;
}

Status Session::Create() {
  std::unique_lock lock(mutex_);
  if (context_->journal == nullptr) return Status::Ok();
  return Commit(lock, CreationRecords(), true, [this] { journal_.SetDurable(true); });
}

Status Session::Edit(const std::function<Result<JournalRecord>(const Conversation&)>& record,
                     const std::function<void(Conversation*)>& apply) {
  std::unique_lock lock(mutex_);
  ASSIGN_OR_RETURN(JournalRecord change, record(conversation_));
  return Commit(lock, {std::move(change)}, false, [&] {
    apply(&conversation_);
    CountBytes();
    turns_.listeners().Changed(key_);
  });
}

Status Session::Forget(const std::string& response, bool durably) {
  std::unique_lock lock(mutex_);
  const auto apply = [&] {
    conversation_.responses.Remove(response);
    CountBytes();
  };
  if (durably) return Commit(lock, {EncodeName(RecordType::kForgotten, response)}, false, apply);
  apply();
  return Status::Ok();
}

Result<Timeline> Session::CopyTimeline(std::optional<int64_t> items) const {
  std::unique_lock lock(mutex_);
  Timeline copy = conversation_.timeline;
  lock.unlock();
  const auto have = static_cast<int64_t>(copy.items().size());
  if (items && (*items < 0 || *items > have)) {
    return InvalidArgument("The conversation has " + std::to_string(have) + " items.", "at", "invalid_value");
  }
  if (items && *items < have) copy.KeepItems(static_cast<size_t>(*items));
  return copy;
}

SharedList<Item> Session::InputItems(const Response& response) const {
  std::unique_lock lock(mutex_);
  const bool active = turns_.running() && turns_.running()->response.get() == &response;
  SharedList<Item> items = active ? turns_.running()->next.items() : conversation_.timeline.items();
  const size_t end = response.input_items_end;
  lock.unlock();
  items.Truncate(std::min(end, items.size()));
  return items;
}

TurnId Session::Running(const std::string& response) const {
  std::lock_guard lock(mutex_);
  const std::optional<ActiveTurn>& running = turns_.running();
  return running && (response.empty() || running->response->id == response) ? running->id : 0;
}

std::vector<std::string> Session::ResponseIds() const {
  std::lock_guard lock(mutex_);
  std::vector<std::string> ids = conversation_.responses.ids();
  if (turns_.running() && !turns_.running()->recorder.announced()) ids.push_back(turns_.running()->response->id);
  return ids;
}

std::vector<std::shared_ptr<Response>> Session::Responses() const {
  std::lock_guard lock(mutex_);
  return {conversation_.responses.all().begin(), conversation_.responses.all().end()};
}

}  // namespace ringside
