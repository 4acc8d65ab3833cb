// The keys of an encrypted journal, and what is sealed with them: one master key, given by the operator and stored
// nowhere, and a data key for each session, stored sealed with the master key. Without a master key everything stays as
// it is. Owned by a Journal; const, any thread. What is stored where is described in session/journal/journal_format.h.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/sealed_box.h"
#include "base/status.h"
#include "session/journal/journal_log.h"

namespace ringside {

/// A session's key; nullopt in a log that is not encrypted.
using DataKey = std::optional<SealKey>;

class JournalKeys {
 public:
  explicit JournalKeys(const std::optional<SealKey>& master) : master_(master) {}

  /// The row that proves the master key, for a new log; nullopt if there is none.
  std::optional<RowChange> CheckRow() const;
  /// kMismatch: the log is encrypted and there is no key, or another one; or it is not, and there is a key.
  Status Check(JournalCursor& cursor) const;

  /// A new session's key; where there is one, `rows` gets its row.
  DataKey Make(std::string_view session, std::vector<RowChange>& rows) const;
  /// An existing session's key. kCorruption: it is gone or damaged.
  Result<DataKey> Find(JournalCursor& cursor, std::string_view session) const;
  /// The key in a row's value.
  Result<DataKey> Unwrap(std::string_view session, std::string_view value) const;

 private:
  const std::optional<SealKey> master_;
};

/// What is stored for a record's payload or a summary, and back: kCorruption if it is not of this session and place.
std::string StorePayload(const DataKey& key, std::string_view session, uint64_t seq, uint8_t type,
                         std::string_view payload);
Result<std::string> LoadPayload(const DataKey& key, std::string_view session, uint64_t seq, uint8_t type,
                                std::string_view stored);
std::string StoreSummary(const DataKey& key, std::string_view session, std::string_view summary);
Result<std::string> LoadSummary(const DataKey& key, std::string_view session, std::string_view stored);

}  // namespace ringside
