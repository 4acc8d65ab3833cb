#include "session/journal/journal.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <future>
#include <utility>

#include "base/defect.h"
#include "base/log.h"
#include "session/journal/delta_log.h"
#include "session/journal/journal_format.h"
#include "session/journal/journal_impl.h"
#include "session/journal/rocksdb_log.h"

namespace ringside {
namespace {

namespace format = journal_format;

constexpr int64_t kNoteMs = 60'000, kNoteIdleMs = 600'000;  // between records of the uptime

/// The disk's error message is in the log.
Status Failed() {
  return {StatusCode::kIo, "The disk has failed: nothing more can be recorded.", "", "storage_failed"};
}
Status Lost() {
  return {StatusCode::kIo, "The store was deleted, moved or replaced: nothing more can be recorded.", "",
          "storage_failed"};
}
Status Fenced() {
  return {StatusCode::kIo, "Another server has taken over this server's conversations: nothing more can be recorded.",
          "", "storage_failed"};
}
Status Full() { return {StatusCode::kUnavailable, "journal: the disk is full", "", "storage_full"}; }
Status ReadOnly() { return {StatusCode::kUnavailable, "The store's folder cannot be written.", "", "storage_failed"}; }
int64_t SteadyMs() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}
RowChange HeadRow(const std::string& session, const JournalPosition& last, uint64_t boot) {
  std::string key = format::HeadKey(session);
  std::string value = format::EncodeHead(key, {last, boot});
  return {RowChange::Kind::kPut, std::move(key), std::move(value)};
}
bool In(const JournalCursor& cursor, char region) { return cursor.Valid() && cursor.key().starts_with(region); }

}  // namespace

Status CheckSessionId(std::string_view session) {
  if (!session.empty() && session.size() <= kMaxJournalSessionBytes) return Status::Ok();
  return InvalidArgument("journal: a session id must have 1 to 128 bytes");
}
Status SessionExists(std::string_view session) {
  return InvalidArgument(fmt::format("journal: session {} exists", session));
}

std::string JournalChain::Hex() const { return fmt::format("{:016x}{:016x}", high, low); }

Result<std::unique_ptr<Journal::Impl>> Journal::Impl::Open(const JournalOptions& options,
                                                           std::optional<int64_t> predecessor) {
  auto impl = std::unique_ptr<Impl>(new Impl(options));
  std::vector<RowChange> initial = {{RowChange::Kind::kPut, format::kSchemaKey, std::string(format::kSchema)}};
  if (auto check = impl->keys_.CheckRow()) initial.push_back(std::move(*check));
  if (options.open_log && !options.master_key) {  // otherwise exports are sealed with a key derived from it
    initial.push_back({RowChange::Kind::kPut, format::kExportKey, std::string(SealKey::Random().bytes())});
  }
  ASSIGN_OR_RETURN(impl->log_,
                   options.open_log ? options.open_log(initial, predecessor) : OpenRocksDbLog(options, initial));
  impl->shared_ = impl->log_->shared();
  impl->reader_ = std::make_unique<JournalReader>(*impl->log_, impl->keys_);
  RETURN_IF_ERROR(impl->Start());
  impl->thread_ = std::thread([raw = impl.get()] { raw->Run(); });
  return impl;
}

Journal::Impl::~Impl() {
  queue_.Close();
  if (!thread_.joinable()) return;  // never started
  thread_.join();
  if (!healthy_ || shared_ != nullptr) return;
  const Status status =
      log_->Commit({{RowChange::Kind::kPut, format::kCleanKey, format::EncodeNumber(boot_)}, UptimeRow()});
  if (!status.ok()) LogError("{}", status.message());
}

Status Journal::Impl::Start() {
  RETURN_IF_ERROR(CheckSchema());
  if (shared_ != nullptr) {
    boot_ = static_cast<uint64_t>(shared_->incarnation());
    return Status::Ok();  // sessions are looked up when they are needed
  }
  RETURN_IF_ERROR(LoadHeads());
  ++boot_;
  RETURN_IF_ERROR(log_->Commit({{RowChange::Kind::kPut, format::kBootKey, format::EncodeNumber(boot_)}}));
  if (clean_boot_ + 1 == boot_) return Status::Ok();  // the last end was orderly
  return reader_->Verify([&](const format::Head& head) { return head.boot > clean_boot_; }).status();
}

Status Journal::Impl::CheckSchema() {
  JournalCursor cursor = log_->Cursor();
  const auto value = [&](std::string_view key) -> std::optional<std::string_view> {
    cursor.Seek(key);
    if (!cursor.Valid() || cursor.key() != key) return std::nullopt;
    return cursor.value();
  };
  const auto schema = value(format::kSchemaKey);
  RETURN_IF_ERROR(cursor.status());
  if (schema != format::kSchema) return Mismatch("journal: written by another version of the server");
  RETURN_IF_ERROR(keys_.Check(cursor));
  boot_ = format::DecodeNumber(value(format::kBootKey).value_or("")).value_or(0);
  clean_boot_ = format::DecodeNumber(value(format::kCleanKey).value_or("")).value_or(0);
  earlier_uptime_ms_ = static_cast<int64_t>(format::DecodeNumber(value(format::kUptimeKey).value_or("")).value_or(0));
  noted_uptime_ms_ = earlier_uptime_ms_;
  return cursor.status();
}

Status Journal::Impl::LoadHeads() {
  JournalCursor cursor = log_->Cursor();
  for (cursor.Seek({&format::kHeads, 1}); In(cursor, format::kHeads); cursor.Next()) {
    const auto key = format::ParseSessionKey(cursor.key());
    if (!key || key->rest != format::kHeadRest) continue;
    const std::string session(key->session);
    const auto head = format::DecodeHead(cursor.key(), cursor.value());
    if (!head) reader_->MarkDamaged(session, "its head is damaged");
    sessions_[session] = {head ? head->last : JournalPosition{}};
  }
  for (cursor.Seek({&format::kErased, 1}); In(cursor, format::kErased); cursor.Next()) ++stats_.erased_unpurged;
  stats_.sessions = static_cast<int64_t>(sessions_.size());
  return cursor.status();
}

int64_t Journal::Impl::UptimeMs() const {
  if (shared_ != nullptr) return shared_->UptimeMs();
  return earlier_uptime_ms_ + (options_.clock->MonotonicNs() - opened_ns_) / 1'000'000;
}

Status Journal::Impl::StoppedStatus() const {
  if (shared_ != nullptr && shared_->Fenced()) return Fenced();
  return lost_ ? Lost() : Failed();
}

Status Journal::Impl::Append(JournalEntry entry, JournalDone done) {
  RETURN_IF_ERROR(CheckSessionId(entry.session));
  size_t bytes = entry.summary ? entry.summary->size() : 0;
  if (bytes > limits::kMaxJournalRecordBytes) return InvalidArgument("journal: the summary is too long");
  for (const JournalRecord& record : entry.records) {
    if (record.payload.size() > limits::kMaxJournalRecordBytes) return InvalidArgument("journal: a record is too long");
    bytes += record.payload.size();
  }
  if (!healthy_) return StoppedStatus();
  const auto refused = [this](Status status) {
    std::lock_guard lock(mutex_);
    ++stats_.refused;
    return status;
  };
  const bool urgent = entry.urgent;
  // The engine's thread must not wait for a file system that does not respond.
  if (Status refusal = urgent ? Refusal() : Check(); !refusal.ok()) return refused(std::move(refusal));
  const auto [entries, queued] = accepted_.Add(entry.session, bytes);
  if (urgent || (entries < options_.queue_entries && (queued == 0 || queued + bytes <= options_.queue_bytes))) {
    if (queue_.PushUrgent({.entry = std::move(entry), .done = std::move(done), .bytes = bytes})) return Status::Ok();
    return Unavailable("journal: closed");
  }
  accepted_.Subtract(bytes);
  accepted_.Remove(entry.session);
  return refused(Overloaded("journal: too many writes are pending"));
}

Status Journal::Impl::Order(Operation operation) {
  RETURN_IF_ERROR(CheckSessionId(operation.entry.session));
  if (!healthy_) return StoppedStatus();
  accepted_.Add(operation.entry.session, operation.bytes);
  return queue_.PushUrgent(std::move(operation)) ? Status::Ok() : Unavailable("journal: closed");
}

void Journal::Impl::NoteUptime() {
  const int64_t noted_ms = noted_uptime_ms_;
  if (shared_ != nullptr) return;  // the store's servers advance its uptime
  if (!healthy_ || UptimeMs() - noted_ms < kNoteIdleMs) return;
  noted_uptime_ms_ = UptimeMs();  // requested: not again before the next interval
  accepted_.Add("", 0);
  queue_.PushUrgent({.kind = Operation::Kind::kNote});
}

RowChange Journal::Impl::UptimeRow() {
  noted_uptime_ms_ = UptimeMs();
  return {RowChange::Kind::kPut, format::kUptimeKey, format::EncodeNumber(static_cast<uint64_t>(noted_uptime_ms_))};
}

bool Journal::Impl::Flush(std::optional<std::chrono::milliseconds> most, const std::string* session) {
  if (session != nullptr && !accepted_.Has(*session)) return true;
  CHECK(std::this_thread::get_id() != thread_.get_id());
  const auto told = std::make_shared<std::promise<void>>();  // shared, because it must outlive set_value
  JournalDone done = [told](const Status&, const JournalPosition&) { told->set_value(); };
  CHECK(queue_.PushUrgent({.kind = Operation::Kind::kFlush, .done = std::move(done)}));
  std::future<void> flushed = told->get_future();
  if (most) return flushed.wait_for(*most) == std::future_status::ready;
  flushed.wait();
  return true;
}

Status Journal::Impl::Refusal() const {
  if (!healthy_) return StoppedStatus();
  if (read_only_) return ReadOnly();
  return full_ ? Full() : Status::Ok();
}

void Journal::Impl::Look() {
  next_look_ms_ = SteadyMs() + options_.space_look_ms;
  free_bytes_ = log_->FreeBytes();
  full_ = free_bytes_ < options_.min_free_bytes;
  read_only_ = CheckPlace().code() == StatusCode::kUnavailable;
}

Status Journal::Impl::Check() {
  if (healthy_ && SteadyMs() >= next_look_ms_) Look();
  return Refusal();
}

Status Journal::Impl::CheckPlace() {
  const Status place = log_->CheckPlace();
  if (place.code() != StatusCode::kIo) return place;
  lost_ = shared_ == nullptr;
  Stop(place);
  return place;
}

void Journal::Impl::Run() {
  for (;;) {
    if (line_.wants_more()) line_.Add(queue_.Drain(line_.empty()));
    if (line_.empty()) return;  // closed
    write_began_ms_ = SteadyMs();
    std::vector<Operation> operations = line_.Take();
    if (shared_ == nullptr) {
      Commit(std::move(operations));
    } else {
      for (std::vector<Operation>& part : SplitAtNewNames(std::move(operations))) Commit(std::move(part));
    }
    write_began_ms_ = 0;
  }
}

void Journal::Impl::Commit(std::vector<Operation> operations) {
  std::vector<RowChange> changes;
  if (healthy_) Look();
  if (shared_ != nullptr && Refusal().ok()) {
    if (const Status reserved = ReserveNames(*shared_, operations); !reserved.ok()) Stop(reserved);
  }
  const Status refusal = Refusal();
  for (Operation& operation : operations) {
    if (operation.kind == Operation::Kind::kFlush || !operation.status.ok()) continue;
    if (refusal.code() == StatusCode::kIo || (!refusal.ok() && operation.kind == Operation::Kind::kAppend)) {
      operation.status = refusal;
    } else if (operation.kind == Operation::Kind::kNote) {
      changes.push_back(UptimeRow());
    } else {
      operation.status = Stage(operation, changes);
    }
  }
  for (const std::string& session : changed_) {
    const auto known = sessions_.find(session);
    if (known == sessions_.end() || !known->second.head_changed) continue;
    known->second.head_changed = false;
    changes.push_back(HeadRow(session, known->second.last, boot_));
  }
  changed_.clear();
  if (shared_ == nullptr && !changes.empty() && UptimeMs() - noted_uptime_ms_ >= kNoteMs)
    changes.push_back(UptimeRow());
  if (RINGSIDE_DEFECT("ack_before_sync")) {
    for (Operation& operation : operations) {
      if (operation.status.ok() && operation.done) std::exchange(operation.done, {})(Status::Ok(), operation.last);
    }
  }
  if (!changes.empty()) {
    const auto begin = std::chrono::steady_clock::now();
    Status written = log_->Commit(changes);
    const double ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
    if (!written.ok()) Stop(written);
    if (written.ok() && CheckPlace().code() == StatusCode::kIo) written = StoppedStatus();
    for (Operation& operation : operations) {
      if (operation.status.ok() && !written.ok()) operation.status = StoppedStatus();
    }
    std::lock_guard lock(mutex_);
    if (written.ok()) ++stats_.commits;
    stats_.sync_ms_total += ms;
    stats_.sync_ms_max = std::max(stats_.sync_ms_max, ms);
    stats_.sessions = static_cast<int64_t>(sessions_.size());
  }
  for (Operation& operation : operations) {
    if (operation.kind == Operation::Kind::kErase && operation.status.ok()) reader_->Forget(operation.entry.session);
    if (operation.kind != Operation::Kind::kFlush) {
      accepted_.Subtract(operation.bytes);
      std::lock_guard lock(mutex_);
      if (operation.status.ok()) {
        ++stats_.entries;
        stats_.records += operation.entry.records.size();
        for (const JournalRecord& record : operation.entry.records) stats_.bytes += record.payload.size();
      } else {
        ++stats_.refused;
      }
    }
    if (operation.done) operation.done(operation.status, operation.last);
    if (operation.kind != Operation::Kind::kFlush) accepted_.Remove(operation.entry.session);
  }
}

Status Journal::Impl::Stage(Operation& operation, std::vector<RowChange>& changes) {
  const JournalEntry& entry = operation.entry;
  if (operation.kind == Operation::Kind::kErase) return StageErase(entry.session, changes);
  if (operation.kind == Operation::Kind::kClaim) {
    sessions_.emplace(entry.session, Known{operation.last});  // one that it has may be further than its stored head
    return Status::Ok();
  }
  if (operation.kind == Operation::Kind::kRelease) {
    const auto released = sessions_.find(entry.session);
    if (released == sessions_.end()) return Status::Ok();
    if (released->second.head_changed) changes.push_back(HeadRow(entry.session, released->second.last, boot_));
    sessions_.erase(released);
    changes.push_back({RowChange::Kind::kRelease, entry.session});
    return Status::Ok();
  }
  auto known = sessions_.find(entry.session);
  if (known != sessions_.end()) {
    if (const auto damage = reader_->DamageOf(entry.session)) return DamagedSession(entry.session, *damage);
  }
  if (known == sessions_.end()) {
    if (!entry.create) return NoSession(entry.session);
    known = sessions_.emplace(entry.session, Known{{0, format::FirstChain(entry.session)}}).first;
    known->second.key = keys_.Make(entry.session, changes);
  } else if (entry.create) {
    return SessionExists(entry.session);
  } else if (!known->second.key) {
    ASSIGN_OR_RETURN(known->second.key, reader_->Key(entry.session));
  }
  const DataKey& key = *known->second.key;
  JournalPosition& last = known->second.last;
  for (const JournalRecord& record : entry.records) {
    ++last.seq;
    const JournalRecord stored = {record.type, StorePayload(key, entry.session, last.seq, record.type, record.payload)};
    last.chain = format::NextChain(last.chain, last.seq, stored.type, stored.payload);
    last.bytes += stored.payload.size();
    changes.push_back(
        {RowChange::Kind::kPut, format::RecordKey(entry.session, last.seq), format::EncodeRecord(stored, last.chain)});
  }
  if (entry.summary) {
    std::string row = format::SummaryKey(entry.session);
    std::string value = format::EncodeSummary(row, StoreSummary(key, entry.session, *entry.summary));
    changes.push_back({RowChange::Kind::kPut, std::move(row), std::move(value), entry.label});
  }
  if (!known->second.head_changed) {
    known->second.head_changed = true;
    changed_.push_back(entry.session);
  }
  operation.last = last;
  return Status::Ok();
}

Status Journal::Impl::StageErase(const std::string& session, std::vector<RowChange>& changes) {
  const auto known = sessions_.find(session);
  if (known == sessions_.end()) return Status::Ok();
  sessions_.erase(known);
  changes.push_back({RowChange::Kind::kDelete, format::HeadKey(session), {}});
  changes.push_back({RowChange::Kind::kDelete, format::SummaryKey(session), {}});
  if (options_.master_key && !RINGSIDE_DEFECT("data_key_kept"))
    changes.push_back({RowChange::Kind::kDelete, format::DataKeyKey(session), {}});
  if (!RINGSIDE_DEFECT("deleted_rows_kept"))
    changes.push_back({RowChange::Kind::kDeleteRange, format::RecordKey(session, 0), format::RecordsEnd(session)});
  changes.push_back({RowChange::Kind::kPut, format::ErasedKey(session), {}});
  std::lock_guard lock(mutex_);
  ++stats_.erased_unpurged;
  return Status::Ok();
}

void Journal::Impl::Stop(const Status& status) {
  if (RINGSIDE_DEFECT("retry_after_failed_sync")) return;
  if (healthy_.exchange(false)) LogError("{}; no further writes are accepted", status.message());
}

Status Journal::Impl::Purge() {
  std::vector<RowChange> done;
  std::vector<std::pair<std::string, std::string>> ranges;
  {
    JournalCursor cursor = log_->Cursor();
    for (cursor.Seek({&format::kErased, 1}); In(cursor, format::kErased); cursor.Next()) {
      const auto key = format::ParseSessionKey(cursor.key());
      if (!key) continue;
      ranges.emplace_back(format::HeadKey(key->session), format::DataKeyKey(key->session));
      ranges.emplace_back(format::RecordKey(key->session, 0), format::RecordsEnd(key->session));
      done.push_back({RowChange::Kind::kDelete, std::string(cursor.key()), {}});
    }
    RETURN_IF_ERROR(cursor.status());
  }
  if (done.empty()) return Status::Ok();
  // Rewriting the same files for each of many sessions costs more than rewriting everything once.
  constexpr size_t kManyRanges = 16;
  if (ranges.size() > kManyRanges) ranges = {{std::string(1, '\0'), std::string(1, '\xff')}};
  RETURN_IF_ERROR(log_->Rewrite(ranges));
  RETURN_IF_ERROR(log_->Commit(done));
  std::lock_guard lock(mutex_);
  stats_.erased_unpurged -= static_cast<int64_t>(done.size());
  return Status::Ok();
}

Status Journal::Impl::Backup(const std::string& folder) {
  RETURN_IF_ERROR(Check());  // not on a full disk, because memory tables are flushed first
  return log_->Backup(folder);
}

JournalStats Journal::Impl::stats() const {
  std::lock_guard lock(mutex_);
  JournalStats out = stats_;
  out.damaged_sessions = reader_->damaged();
  out.queued = static_cast<int64_t>(accepted_.entries());
  out.free_bytes = free_bytes_;
  if (const int64_t began_ms = write_began_ms_; began_ms != 0) out.writing_ms = SteadyMs() - began_ms;
  return out;
}

Result<std::unique_ptr<Journal>> Journal::Open(const JournalOptions& options) {
  std::unique_ptr<DeltaLog> deltas;
  if (!options.deltas_path.empty()) {
    ASSIGN_OR_RETURN(deltas, DeltaLog::Open(options.deltas_path, options.master_key));
  }
  auto impl = Impl::Open(options, deltas != nullptr ? deltas->Predecessor() : std::nullopt);
  if (impl.ok()) return std::unique_ptr<Journal>(new Journal(std::move(deltas), std::move(*impl)));
  if (impl.status().code() != StatusCode::kCorruption) return impl.status();
  std::string_view why = impl.status().message();
  if (constexpr std::string_view kWho = "journal: "; why.starts_with(kWho)) why.remove_prefix(kWho.size());
  return Corruption(fmt::format("the data stored in {} is damaged and is not served: {}", options.path, why));
}
Journal::Journal(std::unique_ptr<DeltaLog> deltas, std::unique_ptr<Impl> impl)
    : deltas_(std::move(deltas)), impl_(std::move(impl)) {
  if (deltas_ == nullptr) return;
  deltas_->DeliverIf([journal = impl_.get()] {
    if (!journal->healthy() || journal->shared()->Fenced()) return DeltaLog::Delivery::kNever;
    return journal->shared()->HoldsLease() ? DeltaLog::Delivery::kNow : DeltaLog::Delivery::kLater;
  });
}
Journal::~Journal() {
  if (deltas_ != nullptr) deltas_->Close();  // its thread asks impl_, whose thread posts to it
}

Status Journal::Append(JournalEntry entry, JournalDone done) {
  return impl_->Append(std::move(entry), std::move(done));
}
Status Journal::Erase(std::string session, JournalDone done) {
  return impl_->Order(
      {.kind = JournalOperation::Kind::kErase, .entry = {.session = std::move(session)}, .done = std::move(done)});
}
bool Journal::Flush(std::optional<std::chrono::milliseconds> most, const std::string* session) {
  const auto end = std::chrono::steady_clock::now() + most.value_or(std::chrono::milliseconds(0));
  if (!impl_->Flush(most, session)) return false;
  if (deltas_ == nullptr) return true;
  if (most) most = std::chrono::ceil<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
  return deltas_->Flush(most);
}
double Journal::UptimeSeconds() const { return static_cast<double>(impl_->UptimeMs()) * 1e-3; }
void Journal::NoteUptime() { impl_->NoteUptime(); }
Result<JournalTranscript> Journal::Read(const std::string& session) const { return impl_->reader().Read(session); }
Result<JournalSummary> Journal::Summary(const std::string& session) const { return impl_->reader().Summary(session); }
Result<JournalPosition> Journal::Last(const std::string& session) const { return impl_->reader().Last(session); }
Result<JournalChain> Journal::ChainAt(const std::string& session, uint64_t seq) const {
  return impl_->reader().ChainAt(session, seq);
}
Result<std::optional<SealKey>> Journal::KeyOf(const std::string& session) const { return impl_->reader().Key(session); }
Status Journal::ForEachHead(const std::function<void(const JournalHead&)>& visit) const {
  return impl_->reader().ForEachHead(visit);
}
Result<std::vector<std::string>> Journal::Verify() const {
  return impl_->reader().Verify([](const format::Head&) { return true; });
}
std::optional<std::string> Journal::DamageOf(const std::string& session) const {
  return impl_->reader().DamageOf(session);
}
void Journal::MarkDamaged(const std::string& session, std::string_view what) const {
  impl_->reader().MarkDamaged(session, what);
}
Status Journal::Purge() {
  if (deltas_ != nullptr) RETURN_IF_ERROR(deltas_->Purge());
  return impl_->Purge();
}
Status Journal::Backup(const std::string& folder) { return impl_->Backup(folder); }
bool Journal::healthy() const { return impl_->healthy(); }
bool Journal::lost() const { return impl_->lost(); }
Status Journal::Check() const { return impl_->Check(); }
JournalStats Journal::stats() const { return impl_->stats(); }

}  // namespace ringside
