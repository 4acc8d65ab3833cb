// Reads the journal's rows, verifying every chain and seal, and keeps the list of sessions found damaged. The calls are
// described in session/journal/journal.h. Owned by a Journal.
// THREAD: any; every call blocks on the disk.
#pragma once

#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "session/journal/journal_format.h"
#include "session/journal/journal_keys.h"
#include "session/journal/shared_log.h"

namespace ringside {

/// ERRORS: kNotFound.
Status NoSession(std::string_view session);

class JournalReader {
 public:
  JournalReader(const JournalLog& log, const JournalKeys& keys) : log_(log), keys_(keys) {}

  Result<JournalTranscript> Read(const std::string& session) const;
  Result<JournalSummary> Summary(const std::string& session) const;
  Result<JournalPosition> Last(const std::string& session) const;
  Result<JournalChain> ChainAt(const std::string& session, uint64_t seq) const;
  /// ERRORS: kNotFound, kCorruption.
  Result<DataKey> Key(const std::string& session) const;
  /// As Journal::ExportKey.
  Result<SealKey> ExportKey() const;
  /// The stored rows' contents.
  ListedSession Listed(const SharedRow& row) const;
  Status ForEachHead(const std::function<void(const JournalHead&)>& visit) const;
  /// Verifies sessions whose head is damaged or `wanted`.
  Result<std::vector<std::string>> Verify(const std::function<bool(const journal_format::Head&)>& wanted) const;

  std::optional<std::string> DamageOf(const std::string& session) const;
  /// Does nothing if the session no longer exists. Logs new damage.
  void MarkDamaged(const std::string& session, std::string_view what) const;
  /// To be called after an erased session's rows are gone.
  void Forget(const std::string& session) const;
  int64_t damaged() const;

 private:
  Result<DataKey> FindKey(JournalCursor& cursor, const std::string& session) const;
  Result<JournalSummary> ReadSummary(JournalCursor& cursor, const std::string& session, DataKey* key) const;
  /// Marks the session if the status reports damage.
  Status Noted(const std::string& session, Status status) const;

  const JournalLog& log_;
  const JournalKeys& keys_;
  mutable std::mutex mutex_;
  mutable std::unordered_map<std::string, std::string> damaged_;  // description of the damage by session
};

}  // namespace ringside
