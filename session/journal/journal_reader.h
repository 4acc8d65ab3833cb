// What can be asked of a journal's rows, each chain and each seal checked on the way; and which sessions have been
// found damaged so far. Owned by a Journal; any thread, every call blocks on the disk. The calls are described in
// session/journal/journal.h.
#pragma once

#include <functional>
#include <mutex>
#include <string>
#include <unordered_set>
#include <vector>

#include "session/journal/journal_format.h"
#include "session/journal/journal_keys.h"

namespace ringside {

/// kCorruption naming the session; kNotFound.
Status DamagedSession(std::string_view session, std::string_view what);
Status NoSession(std::string_view session);

class JournalReader {
 public:
  JournalReader(const JournalLog& log, const JournalKeys& keys) : log_(log), keys_(keys) {}

  Result<JournalTranscript> Read(const std::string& session) const;
  Result<JournalPosition> Last(const std::string& session) const;
  Result<JournalChain> ChainAt(const std::string& session, uint64_t seq) const;
  /// kNotFound, kCorruption.
  Result<DataKey> Key(const std::string& session) const;
  Status ForEachHead(const std::function<void(const JournalHead&)>& visit) const;
  /// Of the sessions with a damaged head or one that is `wanted`.
  Result<std::vector<std::string>> Verify(const std::function<bool(const journal_format::Head&)>& wanted) const;

  bool IsDamaged(const std::string& session) const;
  void MarkDamaged(const std::string& session) const;
  void Forget(const std::string& session) const;
  int64_t damaged() const;

 private:
  Result<DataKey> FindKey(JournalCursor& cursor, const std::string& session) const;

  const JournalLog& log_;
  const JournalKeys& keys_;
  mutable std::mutex mutex_;
  mutable std::unordered_set<std::string> damaged_;
};

}  // namespace ringside
