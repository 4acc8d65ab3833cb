#include "session/journal/journal_keys.h"

#include "session/journal/journal_format.h"

namespace ringside {
namespace {

namespace format = journal_format;

// Names (associated data) under which values are sealed: a kind and the row's identity. No name is a prefix of another.
std::string KeyName(std::string_view session) { return std::string("key ").append(session); }
std::string SummaryName(std::string_view session) { return std::string("summary ").append(session); }
std::string RecordName(std::string_view session, uint64_t seq, uint8_t type) {
  std::string name = "record ";
  name += format::EncodeNumber(seq);
  name.push_back(static_cast<char>(type));
  return name.append(session);
}
constexpr std::string_view kCheckName = "ringside-log";

}  // namespace

std::optional<RowChange> JournalKeys::CheckRow() const {
  if (!master_) return std::nullopt;
  return RowChange{RowChange::Kind::kPut, format::kKeyCheckKey, Seal(*master_, kCheckName, "")};
}

Status JournalKeys::Check(JournalCursor& cursor) const {
  cursor.Seek(format::kKeyCheckKey);
  RETURN_IF_ERROR(cursor.status());
  const bool encrypted = cursor.Valid() && cursor.key() == format::kKeyCheckKey;
  if (!encrypted && !master_) return Status::Ok();
  if (!encrypted) return Mismatch("journal: it is not encrypted, but an encryption key was given");
  if (!master_) return Mismatch("journal: it is encrypted, and no encryption key was given");
  if (OpenSealed(*master_, kCheckName, cursor.value()).ok()) return Status::Ok();
  return Mismatch("journal: the given encryption key does not match the one it was encrypted with");
}

std::optional<SealKey> JournalKeys::ExportKey() const {
  if (!master_) return std::nullopt;
  return DeriveKey(*master_, "exports");
}

DataKey JournalKeys::Make(std::string_view session, std::vector<RowChange>& rows) const {
  if (!master_) return std::nullopt;
  const SealKey key = SealKey::Random();
  rows.push_back({RowChange::Kind::kPut, format::DataKeyKey(session), Seal(*master_, KeyName(session), key.bytes())});
  return key;
}

Result<DataKey> JournalKeys::Find(JournalCursor& cursor, std::string_view session) const {
  if (!master_) return DataKey();
  const std::string row = format::DataKeyKey(session);
  cursor.Seek(row);
  RETURN_IF_ERROR(cursor.status());
  if (!cursor.Valid() || cursor.key() != row) return Corruption("its encryption key was deleted");
  return Unwrap(session, cursor.value());
}

Result<DataKey> JournalKeys::Unwrap(std::string_view session, std::string_view value) const {
  if (!master_) return DataKey();
  const auto bytes = OpenSealed(*master_, KeyName(session), value);
  if (!bytes.ok() || bytes->size() != kSealKeyBytes) return Corruption("its key is damaged");
  return DataKey(SealKey(*bytes));
}

std::string StorePayload(const DataKey& key, std::string_view session, uint64_t seq, uint8_t type,
                         std::string_view payload) {
  return key ? Seal(*key, RecordName(session, seq, type), payload) : std::string(payload);
}
Result<std::string> LoadPayload(const DataKey& key, std::string_view session, uint64_t seq, uint8_t type,
                                std::string_view stored) {
  if (!key) return std::string(stored);
  return OpenSealed(*key, RecordName(session, seq, type), stored);
}
std::string StoreSummary(const DataKey& key, std::string_view session, std::string_view summary) {
  return key ? Seal(*key, SummaryName(session), summary) : std::string(summary);
}
Result<std::string> LoadSummary(const DataKey& key, std::string_view session, std::string_view stored) {
  if (!key) return std::string(stored);
  return OpenSealed(*key, SummaryName(session), stored);
}

}  // namespace ringside
