// Keys of an encrypted journal: one master key, given by the operator and never stored, and a data key per session,
// stored sealed with the master key. Without a master key values are stored unencrypted. The stored rows are described
// in session/journal/journal_format.h. Owned by a Journal; const.
// THREAD: any.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/sealed_box.h"
#include "base/status.h"
#include "session/journal/journal_log.h"

namespace ringside {

/// A session's key; nullopt in an unencrypted log.
using DataKey = std::optional<SealKey>;

class JournalKeys {
 public:
  explicit JournalKeys(const std::optional<SealKey>& master) : master_(master) {}

  /// For a new log: the row that later verifies the master key; nullopt without one.
  std::optional<RowChange> CheckRow() const;
  /// ERRORS: kMismatch if the log is encrypted and the key is missing or wrong, or if it is not encrypted and there is
  /// a key.
  Status Check(JournalCursor& cursor) const;

  /// Key of exports, derived from the master key; nullopt without one.
  std::optional<SealKey> ExportKey() const;
  /// Creates a new session's key and adds its row to `rows`, if the log is encrypted.
  DataKey Make(std::string_view session, std::vector<RowChange>& rows) const;
  /// Reads an existing session's key.
  /// ERRORS: kCorruption if it is missing or damaged.
  Result<DataKey> Find(JournalCursor& cursor, std::string_view session) const;
  /// Unseals the key in a row's value.
  Result<DataKey> Unwrap(std::string_view session, std::string_view value) const;

 private:
  const std::optional<SealKey> master_;
};

/// Seals and unseals a record's payload or a summary.
/// ERRORS: kCorruption if the bytes belong to another session or record.
std::string StorePayload(const DataKey& key, std::string_view session, uint64_t seq, uint8_t type,
                         std::string_view payload);
Result<std::string> LoadPayload(const DataKey& key, std::string_view session, uint64_t seq, uint8_t type,
                                std::string_view stored);
std::string StoreSummary(const DataKey& key, std::string_view session, std::string_view summary);
Result<std::string> LoadSummary(const DataKey& key, std::string_view session, std::string_view stored);

}  // namespace ringside
