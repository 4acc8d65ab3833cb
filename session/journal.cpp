#include "session/journal.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "base/bounded_queue.h"
#include "base/log.h"
#include "session/journal_format.h"
#include "session/journal_log.h"

namespace ringside {
namespace {

namespace format = journal_format;

constexpr std::string_view kHeadRest("\0", 1);  // what follows the id in the key of a head

Status Damaged(std::string_view session, std::string_view what) {
  return Corruption(fmt::format("journal: session {}: {}", session, what));
}
Status NoSession(std::string_view session) { return NotFound(fmt::format("journal: no session {}", session)); }

bool In(const JournalCursor& cursor, std::string_view prefix) {
  return cursor.Valid() && cursor.key().starts_with(prefix);
}

/// Reads a session's head through `cursor`: kNotFound, kCorruption.
Result<format::Head> ReadHead(JournalCursor& cursor, std::string_view session) {
  const std::string key = format::HeadKey(session);
  cursor.Seek(key);
  RETURN_IF_ERROR(cursor.status());
  if (!cursor.Valid() || cursor.key() != key) return NoSession(session);
  const auto head = format::DecodeHead(key, cursor.value());
  if (!head) return Damaged(session, "its head is damaged");
  return *head;
}

/// Walks a session's records up to its head, checks number and chain of each, and calls `visit`.
template <class Visit>
Status WalkRecords(JournalCursor& cursor, std::string_view session, const JournalPosition& last, const Visit& visit) {
  JournalChain chain = format::FirstChain(session);
  uint64_t seq = 0;
  const std::string begin = format::RecordKey(session, 0);
  const std::string_view prefix = std::string_view(begin).substr(0, begin.size() - 8);
  for (cursor.Seek(begin); In(cursor, prefix); cursor.Next()) {
    const auto key = format::ParseSessionKey(cursor.key());
    const auto number = key ? format::ParseSeq(key->rest) : std::nullopt;
    if (!number || *number != ++seq) return Damaged(session, fmt::format("record {} is missing", seq));
    const auto record = format::DecodeRecord(cursor.value());
    if (!record) return Damaged(session, fmt::format("record {} is cut", seq));
    chain = format::NextChain(chain, seq, record->type, record->payload);
    if (!(chain == record->chain)) return Damaged(session, fmt::format("the chain breaks at record {}", seq));
    visit(*record);
  }
  if (const Status status = cursor.status(); !status.ok()) {
    return status.code() == StatusCode::kCorruption ? Damaged(session, status.message()) : status;
  }
  if (seq != last.seq) return Damaged(session, fmt::format("it has {} records, its head says {}", seq, last.seq));
  if (!(chain == last.chain)) return Damaged(session, "its head is not of these records");
  return Status::Ok();
}

}  // namespace

std::string JournalChain::Hex() const { return fmt::format("{:016x}{:016x}", high, low); }

class Journal::Impl {
 public:
  static Result<std::unique_ptr<Impl>> Open(const JournalOptions& options);
  ~Impl();

  Status Push(JournalEntry entry, JournalDone done, bool erase);
  Result<JournalTranscript> Read(const std::string& session) const;
  Result<JournalPosition> Last(const std::string& session) const;
  Status ForEachHead(const std::function<void(const JournalHead&)>& visit) const;
  Result<std::vector<std::string>> Verify(const std::function<bool(const format::Head&)>& wanted) const;
  Status Purge();
  JournalStats stats() const;
  bool healthy() const { return healthy_; }

 private:
  struct Operation {
    JournalEntry entry;
    JournalDone done;
    bool erase = false;
    size_t bytes = 0;
    // What the journal's thread makes of it:
    Status status;
    JournalPosition last;
  };
  struct Known {  // a session; the journal's thread only
    JournalPosition last;
    bool head_changed = false;  // in the batch being made
  };

  explicit Impl(const JournalOptions& options) : options_(options), queue_(options.queue_entries), log_(nullptr) {}
  Status Start();
  Status CheckSchema();
  Status LoadHeads();
  void Run();
  void Commit(std::vector<Operation> operations);
  Status Stage(Operation& operation, std::vector<RowChange>& changes);
  Status StageErase(const std::string& session, std::vector<RowChange>& changes);
  void Stop(const Status& status);
  bool IsDamaged(const std::string& session) const;
  void MarkDamaged(const std::string& session) const;

  const JournalOptions options_;
  BoundedQueue<Operation> queue_;
  std::unique_ptr<JournalLog> log_;
  uint64_t boot_ = 0, clean_boot_ = 0;
  std::unordered_map<std::string, Known> sessions_;
  std::vector<std::string> changed_;  // sessions whose head the batch must write
  std::atomic<bool> healthy_{true};
  std::atomic<size_t> queued_bytes_{0};
  mutable std::mutex mutex_;  // of what follows
  JournalStats stats_;
  mutable std::unordered_set<std::string> damaged_;
  std::thread thread_;
};

Result<std::unique_ptr<Journal::Impl>> Journal::Impl::Open(const JournalOptions& options) {
  auto impl = std::unique_ptr<Impl>(new Impl(options));
  const std::vector<RowChange> initial = {{RowChange::Kind::kPut, format::kSchemaKey, std::string(format::kSchema)}};
  ASSIGN_OR_RETURN(impl->log_, JournalLog::Open(options, initial));
  RETURN_IF_ERROR(impl->Start());
  impl->thread_ = std::thread([raw = impl.get()] { raw->Run(); });
  return impl;
}

Journal::Impl::~Impl() {
  queue_.Close();
  if (!thread_.joinable()) return;  // was never started
  thread_.join();
  if (!healthy_) return;
  const Status status = log_->Commit({{RowChange::Kind::kPut, format::kCleanKey, format::EncodeNumber(boot_)}});
  if (!status.ok()) LogError("{}", status.message());
}

Status Journal::Impl::Start() {
  RETURN_IF_ERROR(CheckSchema());
  RETURN_IF_ERROR(LoadHeads());
  ++boot_;
  RETURN_IF_ERROR(log_->Commit({{RowChange::Kind::kPut, format::kBootKey, format::EncodeNumber(boot_)}}));
  if (options_.verify == JournalVerify::kNone) return Status::Ok();
  const bool all = options_.verify == JournalVerify::kAll;
  if (!all && clean_boot_ + 1 == boot_) return Status::Ok();
  ASSIGN_OR_RETURN(const auto damaged,
                   Verify([&](const format::Head& head) { return all || head.boot > clean_boot_; }));
  for (const std::string& session : damaged) LogError("journal: session {} is damaged", session);
  return Status::Ok();
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
  boot_ = format::DecodeNumber(value(format::kBootKey).value_or("")).value_or(0);
  clean_boot_ = format::DecodeNumber(value(format::kCleanKey).value_or("")).value_or(0);
  return cursor.status();
}

Status Journal::Impl::LoadHeads() {
  JournalCursor cursor = log_->Cursor();
  for (cursor.Seek({&format::kHeads, 1}); In(cursor, {&format::kHeads, 1}); cursor.Next()) {
    const auto key = format::ParseSessionKey(cursor.key());
    if (!key || key->rest != kHeadRest) continue;
    const std::string session(key->session);
    const auto head = format::DecodeHead(cursor.key(), cursor.value());
    if (!head) MarkDamaged(session);
    sessions_[session] = {head ? head->last : JournalPosition{}, false};
  }
  for (cursor.Seek({&format::kErased, 1}); In(cursor, {&format::kErased, 1}); cursor.Next()) ++stats_.erased_unpurged;
  stats_.sessions = static_cast<int64_t>(sessions_.size());
  return cursor.status();
}

Status Journal::Impl::Push(JournalEntry entry, JournalDone done, bool erase) {
  if (entry.session.empty() || entry.session.size() > kMaxJournalSessionBytes) {
    return InvalidArgument("journal: a session id has 1 to 128 bytes");
  }
  size_t bytes = entry.summary ? entry.summary->size() : 0;
  if (bytes > limits::kMaxJournalRecordBytes) return InvalidArgument("journal: the summary is too long");
  for (const JournalRecord& record : entry.records) {
    if (record.payload.size() > limits::kMaxJournalRecordBytes) return InvalidArgument("journal: a record is too long");
    bytes += record.payload.size();
  }
  if (!healthy_) return IoError("journal: stopped after a failed write");
  Operation operation{std::move(entry), std::move(done), erase, bytes, {}, {}};
  if (erase) {
    if (queue_.PushUrgent(std::move(operation))) return Status::Ok();
    return Unavailable("journal: closed");
  }
  const size_t queued = queued_bytes_.fetch_add(bytes);
  if ((queued == 0 || queued + bytes <= options_.queue_bytes) && queue_.TryPush(std::move(operation))) {
    return Status::Ok();
  }
  queued_bytes_ -= bytes;
  std::lock_guard lock(mutex_);
  ++stats_.refused;
  return Overloaded("journal: too much is waiting to be written");
}

void Journal::Impl::Run() {
  for (;;) {
    std::vector<Operation> operations = queue_.Drain(true);
    if (operations.empty()) return;  // closed
    Commit(std::move(operations));
  }
}

void Journal::Impl::Commit(std::vector<Operation> operations) {
  std::vector<RowChange> changes;
  const bool full = healthy_ && log_->FreeBytes() < options_.min_free_bytes;
  for (Operation& operation : operations) {
    if (!healthy_) {
      operation.status = IoError("journal: stopped after a failed write");
    } else if (full && !operation.erase) {
      operation.status = Status(StatusCode::kUnavailable, "journal: the disk is full", "", "storage_full");
    } else {
      operation.status = Stage(operation, changes);
    }
  }
  for (const std::string& session : changed_) {
    const auto known = sessions_.find(session);
    if (known == sessions_.end() || !known->second.head_changed) continue;
    known->second.head_changed = false;
    std::string key = format::HeadKey(session);
    std::string value = format::EncodeHead(key, {known->second.last, boot_});
    changes.push_back({RowChange::Kind::kPut, std::move(key), std::move(value)});
  }
  changed_.clear();
  if (!changes.empty()) {
    const auto begin = std::chrono::steady_clock::now();
    const Status written = log_->Commit(changes);
    const double ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
    if (!written.ok()) Stop(written);
    for (Operation& operation : operations) {
      if (operation.status.ok() && !written.ok()) operation.status = IoError(written.message());
    }
    std::lock_guard lock(mutex_);
    if (written.ok()) ++stats_.commits;
    stats_.sync_ms_total += ms;
    stats_.sync_ms_max = std::max(stats_.sync_ms_max, ms);
    stats_.sessions = static_cast<int64_t>(sessions_.size());
  }
  for (Operation& operation : operations) {
    if (!operation.erase) queued_bytes_ -= operation.bytes;
    {
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
  }
}

Status Journal::Impl::Stage(Operation& operation, std::vector<RowChange>& changes) {
  const JournalEntry& entry = operation.entry;
  if (operation.erase) return StageErase(entry.session, changes);
  if (IsDamaged(entry.session)) return Damaged(entry.session, "damaged; nothing can be added");
  auto known = sessions_.find(entry.session);
  if (known == sessions_.end()) {
    if (!entry.create) return NoSession(entry.session);
    known = sessions_.emplace(entry.session, Known{{0, format::FirstChain(entry.session)}, false}).first;
  } else if (entry.create) {
    return InvalidArgument(fmt::format("journal: session {} exists", entry.session));
  }
  JournalPosition& last = known->second.last;
  for (const JournalRecord& record : entry.records) {
    ++last.seq;
    last.chain = format::NextChain(last.chain, last.seq, record.type, record.payload);
    changes.push_back(
        {RowChange::Kind::kPut, format::RecordKey(entry.session, last.seq), format::EncodeRecord(record, last.chain)});
  }
  if (entry.summary) {
    std::string key = format::SummaryKey(entry.session);
    std::string value = format::EncodeSummary(key, *entry.summary);
    changes.push_back({RowChange::Kind::kPut, std::move(key), std::move(value)});
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
  changes.push_back({RowChange::Kind::kDeleteRange, format::RecordKey(session, 0), format::RecordsEnd(session)});
  changes.push_back({RowChange::Kind::kPut, format::ErasedKey(session), {}});
  std::lock_guard lock(mutex_);
  damaged_.erase(session);
  ++stats_.erased_unpurged;
  return Status::Ok();
}

void Journal::Impl::Stop(const Status& status) {
  healthy_ = false;
  LogError("{}; nothing more is written", status.message());
}

bool Journal::Impl::IsDamaged(const std::string& session) const {
  std::lock_guard lock(mutex_);
  return damaged_.contains(session);
}

void Journal::Impl::MarkDamaged(const std::string& session) const {
  std::lock_guard lock(mutex_);
  damaged_.insert(session);
}

Result<JournalTranscript> Journal::Impl::Read(const std::string& session) const {
  if (session.empty() || session.size() > kMaxJournalSessionBytes) return NoSession(session);
  JournalCursor cursor = log_->Cursor();
  JournalTranscript out;
  const auto read = [&]() -> Status {
    ASSIGN_OR_RETURN(const format::Head head, ReadHead(cursor, session));
    out.last = head.last;
    const std::string key = format::SummaryKey(session);
    cursor.Seek(key);
    RETURN_IF_ERROR(cursor.status());
    if (cursor.Valid() && cursor.key() == key) {
      const auto summary = format::DecodeSummary(key, cursor.value());
      if (!summary) return Damaged(session, "its summary is damaged");
      out.summary = *summary;
    }
    return WalkRecords(cursor, session, head.last, [&](const format::RecordView& record) {
      out.records.push_back({record.type, std::string(record.payload)});
    });
  };
  Status status = read();
  if (status.ok()) return out;
  if (status.code() == StatusCode::kCorruption) MarkDamaged(session);
  return status;
}

Result<JournalPosition> Journal::Impl::Last(const std::string& session) const {
  if (session.empty() || session.size() > kMaxJournalSessionBytes) return NoSession(session);
  JournalCursor cursor = log_->Cursor();
  ASSIGN_OR_RETURN(const format::Head head, ReadHead(cursor, session));
  return head.last;
}

Status Journal::Impl::ForEachHead(const std::function<void(const JournalHead&)>& visit) const {
  JournalCursor cursor = log_->Cursor();
  std::string session, summary;
  std::optional<format::Head> head;
  const auto flush = [&] {
    if (head) visit({session, head->last, summary});
    head.reset();
    summary.clear();
  };
  for (cursor.Seek({&format::kHeads, 1}); In(cursor, {&format::kHeads, 1}); cursor.Next()) {
    const auto key = format::ParseSessionKey(cursor.key());
    if (!key || key->rest.size() != 1) continue;
    if (key->rest == kHeadRest) {
      flush();
      session = key->session;
      head = format::DecodeHead(cursor.key(), cursor.value());
    } else if (head && key->session == session) {
      const auto bytes = format::DecodeSummary(cursor.key(), cursor.value());
      if (bytes) {
        summary = *bytes;
      } else {
        MarkDamaged(session);
        head.reset();
      }
    }
  }
  RETURN_IF_ERROR(cursor.status());
  flush();
  return Status::Ok();
}

Result<std::vector<std::string>> Journal::Impl::Verify(const std::function<bool(const format::Head&)>& wanted) const {
  JournalCursor cursor = log_->Cursor();  // one for both passes: the records as of the heads' moment
  std::vector<std::pair<std::string, std::optional<format::Head>>> heads;
  for (cursor.Seek({&format::kHeads, 1}); In(cursor, {&format::kHeads, 1}); cursor.Next()) {
    const auto key = format::ParseSessionKey(cursor.key());
    if (!key || key->rest != kHeadRest) continue;
    const auto head = format::DecodeHead(cursor.key(), cursor.value());
    if (!head || wanted(*head)) heads.emplace_back(key->session, head);
  }
  RETURN_IF_ERROR(cursor.status());
  std::vector<std::string> out;
  for (auto& [session, head] : heads) {
    const Status status = head ? WalkRecords(cursor, session, head->last, [](const format::RecordView&) {})
                               : Damaged(session, "its head is damaged");
    if (status.ok()) continue;
    if (status.code() != StatusCode::kCorruption) return status;
    MarkDamaged(session);
    out.push_back(std::move(session));
  }
  return out;
}

Status Journal::Impl::Purge() {
  std::vector<RowChange> done;
  std::vector<std::pair<std::string, std::string>> ranges;
  {
    JournalCursor cursor = log_->Cursor();
    for (cursor.Seek({&format::kErased, 1}); In(cursor, {&format::kErased, 1}); cursor.Next()) {
      const auto key = format::ParseSessionKey(cursor.key());
      if (!key) continue;
      ranges.emplace_back(format::HeadKey(key->session), format::SummaryKey(key->session));
      ranges.emplace_back(format::RecordKey(key->session, 0), format::RecordsEnd(key->session));
      done.push_back({RowChange::Kind::kDelete, std::string(cursor.key()), {}});
    }
    RETURN_IF_ERROR(cursor.status());
  }
  if (done.empty()) return Status::Ok();
  // Rewriting the same files once for each of many sessions costs more than rewriting everything once.
  constexpr size_t kManyRanges = 16;
  if (ranges.size() > kManyRanges) ranges = {{std::string(1, '\0'), std::string(1, '\xff')}};
  RETURN_IF_ERROR(log_->Rewrite(ranges));
  RETURN_IF_ERROR(log_->Commit(done));
  std::lock_guard lock(mutex_);
  stats_.erased_unpurged -= static_cast<int64_t>(done.size());
  return Status::Ok();
}

JournalStats Journal::Impl::stats() const {
  std::lock_guard lock(mutex_);
  JournalStats out = stats_;
  out.damaged_sessions = static_cast<int64_t>(damaged_.size());
  out.queued = static_cast<int64_t>(queue_.size());
  return out;
}

Result<std::unique_ptr<Journal>> Journal::Open(const JournalOptions& options) {
  ASSIGN_OR_RETURN(auto impl, Impl::Open(options));
  return std::unique_ptr<Journal>(new Journal(std::move(impl)));
}
Journal::Journal(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Journal::~Journal() = default;

Status Journal::Append(JournalEntry entry, JournalDone done) {
  return impl_->Push(std::move(entry), std::move(done), false);
}
Status Journal::Erase(std::string session, JournalDone done) {
  JournalEntry entry;
  entry.session = std::move(session);
  return impl_->Push(std::move(entry), std::move(done), true);
}
Result<JournalTranscript> Journal::Read(const std::string& session) const { return impl_->Read(session); }
Result<JournalPosition> Journal::Last(const std::string& session) const { return impl_->Last(session); }
Status Journal::ForEachHead(const std::function<void(const JournalHead&)>& visit) const {
  return impl_->ForEachHead(visit);
}
Result<std::vector<std::string>> Journal::Verify() const {
  return impl_->Verify([](const format::Head&) { return true; });
}
Status Journal::Purge() { return impl_->Purge(); }
bool Journal::healthy() const { return impl_->healthy(); }
JournalStats Journal::stats() const { return impl_->stats(); }

}  // namespace ringside
