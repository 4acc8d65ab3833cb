// What can be asked of a journal's rows, each chain and each seal checked on the way; and which sessions have been
// found damaged so far. Owned by a Journal; any thread, every call blocks on the disk. The calls are described in
// session/journal/journal.h.
#pragma once

#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "session/journal/journal_format.h"
#include "session/journal/journal_keys.h"

namespace ringside {

/// kNotFound.
Status NoSession(std::string_view session);

class JournalReader {
 public:
  JournalReader(const JournalLog& log, const JournalKeys& keys) : log_(log), keys_(keys) {}

  Result<JournalTranscript> Read(const std::string& session) const;
  Result<JournalSummary> Summary(const std::string& session) const;
  Result<JournalPosition> Last(const std::string& session) const;
  Result<JournalChain> ChainAt(const std::string& session, uint64_t seq) const;
  /// kNotFound, kCorruption.
  Result<DataKey> Key(const std::string& session) const;
  Status ForEachHead(const std::function<void(const JournalHead&)>& visit) const;
  /// Of the sessions with a damaged head or one that is `wanted`.
  Result<std::vector<std::string>> Verify(const std::function<bool(const journal_format::Head&)>& wanted) const;

  std::optional<std::string> DamageOf(const std::string& session) const;
  /// Nothing happens where there is no such session any more. Logs what is new.
  void MarkDamaged(const std::string& session, std::string_view what) const;
  /// For a session that is erased: once its rows are gone.
  void Forget(const std::string& session) const;
  int64_t damaged() const;

 private:
  Result<DataKey> FindKey(JournalCursor& cursor, const std::string& session) const;
  Result<JournalSummary> ReadSummary(JournalCursor& cursor, const std::string& session, DataKey* key) const;
  /// Marks the session if the status is that of a damaged one.
  Status Noted(const std::string& session, Status status) const;

  const JournalLog& log_;
  const JournalKeys& keys_;
  mutable std::mutex mutex_;
  mutable std::unordered_map<std::string, std::string> damaged_;  // and what is
};

}  // namespace ringside
