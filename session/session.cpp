#include "session/session.h"

#include <algorithm>
#include <atomic>
#include <future>

#include "base/defect.h"
#include "base/limits.h"
#include "base/worker_pool.h"
#include "cache/store/tiered_store.h"
#include "session/ids.h"

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
      created_at_(context_->clock.WallSeconds()),
      updated_at_(created_at_),
      used_s_(context_->uptime_s()),
      metadata_(std::move(metadata)),
      window_(window),
      adapter_(window.adapter),
      epoch_(context_->epoch),
      first_epoch_(context_->epoch),
      recorded_codec_(context_->codec_name),
      owners_bytes_(context_->bytes_by_owner->Of(owner_)),
      owners_stored_(context_->stored_by_owner->Of(owner_)) {
  CountBytes();
}

Session::~Session() {
  *context_->bytes -= bytes_;
  *owners_bytes_ -= bytes_;
  if (engine_timeline_ != 0) context_->retired->Add({engine_timeline_, durable_});
}

void Session::CountBytes() {
  int64_t bytes = static_cast<int64_t>(sizeof(Session)) + timeline_.bytes() + responses_.bytes();
  for (const auto& [key, value] : metadata_) bytes += static_cast<int64_t>(key.size() + value.size());
  *context_->bytes += bytes - bytes_;
  *owners_bytes_ += bytes - bytes_;
  bytes_ = bytes;
}

WindowOverrides Session::window() const {
  std::lock_guard lock(mutex_);
  return WindowLocked();
}

WindowOverrides Session::WindowLocked() const {
  WindowOverrides window = window_;
  window.adapter = adapter_;
  return window;
}

// A session's own settings are kept for servers that allow more; this server's limits apply.
int64_t Session::SessionLen() const {
  const int64_t most = context_->options.session_len;
  return std::min(window_.session_len.value_or(most), most);
}

RingWindow Session::Window(int64_t pinned) const {
  const SessionTableOptions& options = context_->options;
  return {std::min(pinned, options.pinned_max),
          std::min(window_.memory_len.value_or(options.memory_len), options.memory_len),
          window_.eviction.value_or(options.eviction)};
}

ClampedLimits Session::Clamped(int64_t pinned) const {
  const SessionTableOptions& options = context_->options;
  ClampedLimits clamped;
  if (window_.memory_len > options.memory_len) clamped.memory_len = options.memory_len;
  if (window_.session_len > options.session_len) clamped.session_len = options.session_len;
  if (pinned > options.pinned_max) clamped.pinned = options.pinned_max;
  return clamped;
}

Item Session::MakeItem(NewItem item) const {
  Item made;
  made.id = MakeId("msg_");
  made.role = item.role;
  made.text = std::move(item.text);
  if (!item.reasoning.empty() && item.role == ChatRole::kAssistant) made.reasoning = std::move(item.reasoning);
  made.calls_at = item.calls_at;
  made.call_ids = std::move(item.call_ids);
  return made;
}

bool Session::durable() const {
  std::lock_guard lock(mutex_);
  return durable_;
}

std::string Session::cache_owner() const {
  std::lock_guard lock(mutex_);
  return CacheOwner(false);
}

std::string Session::CacheOwner(bool stores) const {
  const bool named = durable_ || stores || context_->journal == nullptr || key_.starts_with(TieredStore::kMemoryOnly);
  return named ? key_ : "";
}

void Session::Gone() {
  std::lock_guard lock(mutex_);
  listeners_.Gone(id_);
  deleted_ = true;
  *owners_stored_ -= static_cast<int64_t>(recorded_.bytes);
}

bool Session::idle() const {
  std::lock_guard lock(mutex_);
  return !running_ && !changing_ && !listeners_.attached();
}

double Session::updated_at() const {
  std::lock_guard lock(mutex_);
  return updated_at_;
}

SessionInfo Session::Info() const {
  std::lock_guard lock(mutex_);
  SessionInfo info = Describe(Summary(recorded_.seq), context_->options);
  info.id = id_;
  info.instructions = timeline_.head().instructions;
  info.durable = durable_;
  info.recorded = recorded_;
  if (running_) info.active_response_id = running_->response->id;
  return info;
}

SharedList<Item> Session::Items() const {
  std::lock_guard lock(mutex_);
  return timeline_.items();
}

SharedText Session::Tools() const {
  std::lock_guard lock(mutex_);
  return timeline_.head().tools;
}

SharedText Session::FormOfCut() const {
  std::lock_guard lock(mutex_);
  return timeline_.items().empty() ? SharedText() : timeline_.items().back().form;
}

Metadata Session::metadata() const {
  std::lock_guard lock(mutex_);
  return metadata_;
}

TimelineId Session::engine_timeline() const {
  std::lock_guard lock(mutex_);
  return engine_timeline_;
}

RingWindow Session::cache_window() const {
  std::lock_guard lock(mutex_);
  return engine_timeline_ != 0 ? engine_window_ : Window(timeline_.pinned());
}

void Session::Adopt(Timeline timeline, TimelineId engine_timeline, const RingWindow& window) {
  std::lock_guard lock(mutex_);
  timeline_ = std::move(timeline);
  engine_timeline_ = engine_timeline;
  engine_window_ = window;
  CountBytes();
}

Status Session::CheckFree(uint64_t connection) const {
  if (listeners_.Fenced(connection) && !RINGSIDE_DEFECT("superseded_accepted")) {
    return {StatusCode::kBusy, "Another connection has resumed this conversation since.", "conversation", "superseded"};
  }
  return running_ || changing_ ? ConversationLocked() : Status::Ok();
}

Status Session::CheckItems(size_t added, const char* param) const {
  if (timeline_.items().size() + added <= kMaxTimelineItems) return Status::Ok();
  return InvalidArgument("A conversation has at most " + std::to_string(kMaxTimelineItems) + " items.", param,
                         "array_above_max_length");
}

SessionSummary Session::Summary(uint64_t seq) const {
  return {.owner = owner_,
          .created_at = created_at_,
          .updated_at = updated_at_,
          .seq = seq,
          .metadata = metadata_,
          .window = WindowLocked(),
          .items = static_cast<int64_t>(timeline_.items().size()),
          .tokens = static_cast<int64_t>(timeline_.tokens().size()),
          .position = last_report_.position,
          .pinned = timeline_.pinned(),
          .tokens_evicted = last_report_.tokens_evicted,
          .epoch = epoch_,
          .used_s = used_s_};
}

void Session::SetRecorded(const JournalPosition& last) {
  if (!deleted_) *owners_stored_ += static_cast<int64_t>(last.bytes) - static_cast<int64_t>(recorded_.bytes);
  recorded_ = last;
}

void Session::Changed() {
  std::lock_guard lock(mutex_);
  ChangedLocked();
}

void Session::ChangedLocked() {
  if (durable_ && !std::exchange(changed_, true)) context_->changed->Add(weak_from_this());
}

void Session::WriteSummary() {
  std::lock_guard lock(mutex_);
  changed_ = false;
  if (!durable_ || running_) return;
  if (changing_) return ChangedLocked();
  JournalEntry entry;
  entry.session = key_;
  entry.summary = Encode(Summary(recorded_.seq));
  // Under the lock, so that no turn's summary comes first. If refused, a list reads the whole session.
  (void)context_->journal->Append(std::move(entry), nullptr);
}

std::vector<JournalRecord> Session::CreationRecords() const {
  std::vector<JournalRecord> records = {
      Encode(CreatedRecord{owner_, created_at_, metadata_, window_, epoch_, context_->codec_name})};
  if (!timeline_.items().empty() || timeline_.head().instructions) {
    records.push_back(Encode(TimelineRecord{timeline_.PatchFrom(Timeline()), false}));
  }
  return records;
}

Status Session::Commit(std::unique_lock<std::mutex>& lock, std::vector<JournalRecord> records, bool create,
                       const std::function<void()>& apply) {
  if (!durable_ && !create) {
    apply();
    return Status::Ok();
  }
  JournalEntry entry;
  entry.session = key_;
  entry.create = create;
  entry.records = std::move(records);
  if (create) entry.summary = Encode(Summary(entry.records.size()));
  const auto told = std::make_shared<std::promise<Status>>();
  // Applied on the journal's thread, so that changes take effect in the journal's order.
  const auto done = [&, told](const Status& status, const JournalPosition& last) {
    if (status.ok()) {
      std::lock_guard relock(mutex_);
      SetRecorded(last);
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
  return Commit(lock, CreationRecords(), true, [this] { durable_ = true; });
}

Status Session::SetMetadata(Metadata metadata) {
  std::unique_lock lock(mutex_);
  JournalRecord record = EncodeMetadata(metadata);
  return Commit(lock, {std::move(record)}, false, [&] {
    metadata_ = std::move(metadata);
    CountBytes();
  });
}

Status Session::Forget(const std::string& response, bool durably) {
  std::unique_lock lock(mutex_);
  const auto apply = [&] {
    responses_.Remove(response);
    CountBytes();
  };
  if (durably) return Commit(lock, {EncodeForgotten(response)}, false, apply);
  apply();
  return Status::Ok();
}

Result<Timeline> Session::CopyTimeline(std::optional<int64_t> items) const {
  std::unique_lock lock(mutex_);
  Timeline copy = timeline_;
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
  const bool active = running_ && running_->response.get() == &response;
  SharedList<Item> items = active ? running_->next.items() : timeline_.items();
  const size_t end = response.input_items_end;
  lock.unlock();
  items.Truncate(std::min(end, items.size()));
  return items;
}

std::vector<std::string> Session::ResponseIds() const {
  std::lock_guard lock(mutex_);
  std::vector<std::string> ids = responses_.ids();
  if (running_ && !running_->recorder.announced()) ids.push_back(running_->response->id);
  return ids;
}

std::vector<std::shared_ptr<Response>> Session::Responses() const {
  std::lock_guard lock(mutex_);
  return {responses_.all().begin(), responses_.all().end()};
}

}  // namespace ringside
