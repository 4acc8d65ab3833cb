#include "session/journal/journal_reader.h"

#include <fmt/format.h>

#include <utility>

#include "base/defect.h"
#include "base/log.h"

namespace ringside {
namespace {

namespace format = journal_format;

bool Exists(std::string_view session) { return !session.empty() && session.size() <= kMaxJournalSessionBytes; }

bool In(const JournalCursor& cursor, std::string_view prefix) {
  return cursor.Valid() && cursor.key().starts_with(prefix);
}

// Damage is passed as kCorruption with a short description; Noted converts it for callers.

/// RocksDB's message names files: it is logged, not returned.
Status StatusOf(const JournalCursor& cursor) {
  const Status status = cursor.status();
  if (status.ok()) return status;
  LogError("{}", status.message());
  if (status.code() == StatusCode::kCorruption) return Corruption("a block of the log fails its checksum");
  return {status.code(), "The disk has failed: what is stored cannot be read.", "", "storage_failed"};
}

/// ERRORS: kNotFound, kCorruption.
Result<format::Head> ReadHead(JournalCursor& cursor, std::string_view session) {
  const std::string key = format::HeadKey(session);
  cursor.Seek(key);
  RETURN_IF_ERROR(StatusOf(cursor));
  if (!cursor.Valid() || cursor.key() != key) return NoSession(session);
  const auto head = format::DecodeHead(key, cursor.value());
  if (!head) return Corruption("its head is damaged");
  return *head;
}

/// Visits a session's records up to its head, checking the number and chain of each.
template <class Visit>
Status WalkRecords(JournalCursor& cursor, std::string_view session, const JournalPosition& last, const Visit& visit) {
  JournalChain chain = format::FirstChain(session);
  uint64_t seq = 0;
  const std::string begin = format::RecordKey(session, 0);
  const std::string_view prefix = std::string_view(begin).substr(0, begin.size() - 8);
  for (cursor.Seek(begin); In(cursor, prefix); cursor.Next()) {
    const auto key = format::ParseSessionKey(cursor.key());
    const auto number = key ? format::ParseSeq(key->rest) : std::nullopt;
    if (!number || *number != ++seq) return Corruption(fmt::format("record {} is missing", seq));
    const auto record = format::DecodeRecord(cursor.value());
    if (!record) return Corruption(fmt::format("record {} is cut", seq));
    chain = format::NextChain(chain, seq, record->type, record->payload);
    if (RINGSIDE_DEFECT("chain_not_checked")) chain = record->chain;
    if (!(chain == record->chain)) return Corruption(fmt::format("the chain breaks at record {}", seq));
    visit(*record);
  }
  const bool whole = seq == last.seq && chain == last.chain;
  if (whole) return Status::Ok();  // an unreadable block after the last record is not the session's
  RETURN_IF_ERROR(StatusOf(cursor));
  if (seq != last.seq) return Corruption(fmt::format("it has {} records, its head says {}", seq, last.seq));
  return Corruption("its head is not of these records");
}

}  // namespace

Status DamagedSession(std::string_view session, std::string_view what) {
  return {StatusCode::kCorruption, fmt::format("What is stored of {} is damaged: {}.", session, what), "conversation",
          "session_damaged"};
}
Status NoSession(std::string_view session) { return NotFound(fmt::format("journal: no session {}", session)); }

std::optional<std::string> JournalReader::DamageOf(const std::string& session) const {
  std::lock_guard lock(mutex_);
  const auto at = damaged_.find(session);
  return at == damaged_.end() ? std::nullopt : std::optional(at->second);
}

void JournalReader::MarkDamaged(const std::string& session, std::string_view what) const {
  std::lock_guard lock(mutex_);
  // It may have been erased while it was read. Checked under the lock, for which Forget then waits.
  JournalCursor cursor = log_.Cursor();
  if (ReadHead(cursor, session).status().code() == StatusCode::kNotFound) return;
  if (damaged_.emplace(session, what).second) LogError("session {} is damaged: {}", session, what);
}

void JournalReader::Forget(const std::string& session) const {
  std::lock_guard lock(mutex_);
  damaged_.erase(session);
}

int64_t JournalReader::damaged() const {
  std::lock_guard lock(mutex_);
  return static_cast<int64_t>(damaged_.size());
}

Status JournalReader::Noted(const std::string& session, Status status) const {
  if (status.code() != StatusCode::kCorruption) return status;
  MarkDamaged(session, status.message());
  return DamagedSession(session, status.message());
}

Result<DataKey> JournalReader::FindKey(JournalCursor& cursor, const std::string& session) const {
  auto key = keys_.Find(cursor, session);
  RETURN_IF_ERROR(StatusOf(cursor));
  return key;
}

Result<DataKey> JournalReader::Key(const std::string& session) const {
  if (!Exists(session)) return NoSession(session);
  JournalCursor cursor = log_.Cursor();
  Status status = ReadHead(cursor, session).status();
  if (!status.ok()) return Noted(session, std::move(status));
  auto key = FindKey(cursor, session);
  return key.ok() ? key : Noted(session, key.status());
}

Result<JournalSummary> JournalReader::ReadSummary(JournalCursor& cursor, const std::string& session,
                                                  DataKey* key) const {
  JournalSummary out;
  ASSIGN_OR_RETURN(const format::Head head, ReadHead(cursor, session));
  out.last = head.last;
  out.writer = static_cast<int64_t>(head.boot);
  ASSIGN_OR_RETURN(*key, FindKey(cursor, session));
  const std::string row = format::SummaryKey(session);
  cursor.Seek(row);
  RETURN_IF_ERROR(StatusOf(cursor));
  if (!cursor.Valid() || cursor.key() != row) return out;
  const auto stored = format::DecodeSummary(row, cursor.value());
  auto summary = stored ? LoadSummary(*key, session, *stored) : Corruption("");
  if (!summary.ok()) return Corruption("its summary is damaged");
  out.summary = std::move(*summary);
  return out;
}

Result<JournalSummary> JournalReader::Summary(const std::string& session) const {
  if (!Exists(session)) return NoSession(session);
  JournalCursor cursor = log_.Cursor();
  DataKey key;
  auto summary = ReadSummary(cursor, session, &key);
  return summary.ok() ? summary : Noted(session, summary.status());
}

Result<JournalTranscript> JournalReader::Read(const std::string& session) const {
  if (!Exists(session)) return NoSession(session);
  JournalCursor cursor = log_.Cursor();
  JournalTranscript out;
  const auto read = [&]() -> Status {
    DataKey data_key;
    ASSIGN_OR_RETURN(JournalSummary summary, ReadSummary(cursor, session, &data_key));
    out.last = summary.last;
    out.writer = summary.writer;
    out.summary = std::move(summary.summary);
    Status payloads;
    RETURN_IF_ERROR(WalkRecords(cursor, session, out.last, [&](const format::RecordView& record) {
      const uint64_t seq = out.records.size() + 1;
      auto payload = LoadPayload(data_key, session, seq, record.type, record.payload);
      if (!payload.ok()) payloads = Corruption(fmt::format("record {}: {}", seq, payload.status().message()));
      out.records.push_back({record.type, payload.ok() ? std::move(*payload) : ""});
      out.chains.push_back(record.chain);
    }));
    return payloads;
  };
  Status status = read();
  if (status.ok()) return out;
  return Noted(session, std::move(status));
}

Result<JournalPosition> JournalReader::Last(const std::string& session) const {
  if (!Exists(session)) return NoSession(session);
  JournalCursor cursor = log_.Cursor();
  const auto head = ReadHead(cursor, session);
  if (!head.ok()) return Noted(session, head.status());
  return head->last;
}

Result<JournalChain> JournalReader::ChainAt(const std::string& session, uint64_t seq) const {
  ASSIGN_OR_RETURN(const JournalPosition last, Last(session));
  if (seq > last.seq) return NotFound(fmt::format("journal: session {} has no record {}", session, seq));
  JournalChain before = format::FirstChain(session);
  JournalCursor cursor = log_.Cursor();
  // The record's stored chain is valid only if it follows from the previous one.
  for (uint64_t at = seq > 1 ? seq - 1 : 1; at <= seq; ++at) {
    const std::string key = format::RecordKey(session, at);
    cursor.Seek(key);
    if (Status status = StatusOf(cursor); !status.ok()) return Noted(session, std::move(status));
    const auto record = cursor.Valid() && cursor.key() == key ? format::DecodeRecord(cursor.value()) : std::nullopt;
    if (!record) return Noted(session, Corruption(fmt::format("record {} is missing", at)));
    const bool follows = record->chain == format::NextChain(before, at, record->type, record->payload);
    if (at == seq && !follows) return Noted(session, Corruption(fmt::format("the chain breaks at record {}", at)));
    before = record->chain;
  }
  return before;
}

Result<SealKey> JournalReader::ExportKey() const {
  if (const auto derived = keys_.ExportKey()) return *derived;
  JournalCursor cursor = log_.Cursor();
  cursor.Seek(format::kExportKey);
  RETURN_IF_ERROR(StatusOf(cursor));
  if (!cursor.Valid() || cursor.key() != format::kExportKey || cursor.value().size() != kSealKeyBytes) {
    return Corruption("journal: the key of exports is missing");
  }
  return SealKey(cursor.value());
}

ListedSession JournalReader::Listed(const SharedRow& row) const {
  ListedSession out{.session = row.session, .stored = {}, .damage = DamageOf(row.session).value_or("")};
  const auto head = format::DecodeHead(format::HeadKey(row.session), row.head);
  if (head) out.stored.last = head->last;
  const auto stored = format::DecodeSummary(format::SummaryKey(row.session), row.summary);
  const auto key = keys_.Unwrap(row.session, row.key);
  auto summary = stored && key.ok() ? LoadSummary(*key, row.session, *stored) : Corruption("");
  if (summary.ok()) out.stored.summary = *std::move(summary);
  if (!head || out.stored.summary.empty()) out.damage = head ? "its summary is damaged" : "its head is damaged";
  return out;
}

Status JournalReader::ForEachHead(const std::function<void(const JournalHead&)>& visit) const {
  struct Rows {
    std::string session;
    std::optional<format::Head> head;
    std::optional<std::string> summary, key;  // as stored
    bool sound = true;
  };
  const auto tell = [&](const Rows& rows) {
    if (rows.session.empty()) return;
    const auto key = keys_.Unwrap(rows.session, rows.key.value_or(""));
    auto summary = !rows.summary ? Result<std::string>(std::string())
                   : key.ok()    ? LoadSummary(*key, rows.session, *rows.summary)
                                 : Result<std::string>(key.status());
    if (!key.ok()) {
      MarkDamaged(rows.session, key.status().message());
    } else if (!rows.sound || !summary.ok()) {
      MarkDamaged(rows.session, "its summary is damaged");
    }
    // damaged heads are known since the journal was opened
    const std::string damage = DamageOf(rows.session).value_or("");
    const bool readable = rows.sound && summary.ok();
    visit({rows.session, rows.head ? rows.head->last : JournalPosition{}, readable ? *summary : "", damage});
  };
  JournalCursor cursor = log_.Cursor();
  Rows rows;
  for (cursor.Seek({&format::kHeads, 1}); In(cursor, {&format::kHeads, 1}); cursor.Next()) {
    const auto key = format::ParseSessionKey(cursor.key());
    if (!key) continue;
    if (key->rest == format::kHeadRest) {
      tell(rows);
      rows = {std::string(key->session), format::DecodeHead(cursor.key(), cursor.value()), {}, {}, true};
    } else if (key->session != rows.session) {
      continue;
    } else if (key->rest == format::kSummaryRest) {
      const auto stored = format::DecodeSummary(cursor.key(), cursor.value());
      rows.summary = stored.value_or("");
      rows.sound = stored.has_value();
    } else if (key->rest == format::kDataKeyRest) {
      rows.key = cursor.value();
    }
  }
  RETURN_IF_ERROR(cursor.status());
  tell(rows);
  return Status::Ok();
}

Result<std::vector<std::string>> JournalReader::Verify(const std::function<bool(const format::Head&)>& wanted) const {
  JournalCursor cursor = log_.Cursor();  // one cursor for both passes, so that records match the heads
  std::vector<std::pair<std::string, std::optional<format::Head>>> heads;
  for (cursor.Seek({&format::kHeads, 1}); In(cursor, {&format::kHeads, 1}); cursor.Next()) {
    const auto key = format::ParseSessionKey(cursor.key());
    if (!key || key->rest != format::kHeadRest) continue;
    const auto head = format::DecodeHead(cursor.key(), cursor.value());
    if (!head || wanted(*head)) heads.emplace_back(key->session, head);
  }
  RETURN_IF_ERROR(cursor.status());
  std::vector<std::string> out;
  for (auto& [session, head] : heads) {
    Status status = head ? FindKey(cursor, session).status() : Corruption("its head is damaged");
    if (status.ok()) status = WalkRecords(cursor, session, head->last, [](const format::RecordView&) {});
    if (status.ok()) continue;
    if (status.code() != StatusCode::kCorruption) return status;
    MarkDamaged(session, status.message());
    out.push_back(std::move(session));
  }
  return out;
}

}  // namespace ringside
