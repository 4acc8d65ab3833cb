#include "session/journal/journal_format.h"

#define XXH_STATIC_LINKING_ONLY  // for the size of XXH3's states
#include <xxhash.h>

#include "base/check.h"

namespace ringside::journal_format {
namespace {

constexpr size_t kWord = 8, kChainBytes = 16;

void AppendLittle(std::string& out, uint64_t number) {
  for (int shift = 0; shift < 64; shift += 8) out.push_back(static_cast<char>(number >> shift));
}
void AppendBig(std::string& out, uint64_t number) {
  for (int shift = 56; shift >= 0; shift -= 8) out.push_back(static_cast<char>(number >> shift));
}
uint64_t ReadLittle(std::string_view bytes) {
  uint64_t number = 0;
  for (size_t i = kWord; i-- > 0;) number = number << 8 | static_cast<uint8_t>(bytes[i]);
  return number;
}
uint64_t ReadBig(std::string_view bytes) {
  uint64_t number = 0;
  for (size_t i = 0; i < kWord; ++i) number = number << 8 | static_cast<uint8_t>(bytes[i]);
  return number;
}

std::string SessionPrefix(char region, std::string_view session) {
  CHECK(!session.empty() && session.size() <= kMaxJournalSessionBytes);
  std::string key(1, region);
  key.push_back(static_cast<char>(session.size()));
  return key.append(session);
}

void AppendChain(std::string& out, const JournalChain& chain) {
  AppendLittle(out, chain.low);
  AppendLittle(out, chain.high);
}
JournalChain ReadChain(std::string_view bytes) { return {ReadLittle(bytes.substr(kWord)), ReadLittle(bytes)}; }
JournalChain ToChain(XXH128_hash_t hash) { return {hash.high64, hash.low64}; }

/// The bytes before a valid check at the end of a value.
std::optional<std::string_view> Checked(std::string_view key, std::string_view value) {
  if (value.size() < kWord) return std::nullopt;
  const std::string_view body = value.substr(0, value.size() - kWord);
  if (ReadLittle(value.substr(body.size())) != Checksum(key, body)) return std::nullopt;
  return body;
}

}  // namespace

std::string HeadKey(std::string_view session) { return SessionPrefix(kHeads, session) + '\0'; }
std::string SummaryKey(std::string_view session) { return SessionPrefix(kHeads, session) + '\1'; }
std::string DataKeyKey(std::string_view session) { return SessionPrefix(kHeads, session) + '\2'; }
std::string ErasedKey(std::string_view session) { return SessionPrefix(kErased, session); }
std::string RecordsEnd(std::string_view session) { return RecordKey(session, ~uint64_t{0}); }

std::string RecordKey(std::string_view session, uint64_t seq) {
  std::string key = SessionPrefix(kRecords, session);
  AppendBig(key, seq);
  return key;
}

std::optional<SessionKey> ParseSessionKey(std::string_view key) {
  if (key.size() < 2) return std::nullopt;
  if (key[0] != kHeads && key[0] != kRecords && key[0] != kErased) return std::nullopt;
  const size_t length = static_cast<uint8_t>(key[1]);
  if (length == 0 || length > kMaxJournalSessionBytes || key.size() < 2 + length) return std::nullopt;
  return SessionKey{key.substr(2, length), key.substr(2 + length)};
}

std::optional<uint64_t> ParseSeq(std::string_view rest) {
  if (rest.size() != kWord) return std::nullopt;
  return ReadBig(rest);
}

std::string EncodeHead(std::string_view key, const Head& head) {
  std::string value;
  AppendLittle(value, head.last.seq);
  AppendChain(value, head.last.chain);
  AppendLittle(value, head.boot);
  AppendLittle(value, head.last.bytes);
  AppendLittle(value, Checksum(key, value));
  return value;
}

std::optional<Head> DecodeHead(std::string_view key, std::string_view value) {
  const auto body = Checked(key, value);
  constexpr size_t kOlder = 2 * kWord + kChainBytes;  // older versions have no byte count
  if (!body || (body->size() != kOlder && body->size() != kOlder + kWord)) return std::nullopt;
  Head head{{ReadLittle(*body), ReadChain(body->substr(kWord))}, ReadLittle(body->substr(kWord + kChainBytes))};
  if (body->size() > kOlder) head.last.bytes = ReadLittle(body->substr(kOlder));
  return head;
}

std::string EncodeSummary(std::string_view key, std::string_view summary) {
  std::string value(summary);
  AppendLittle(value, Checksum(key, summary));
  return value;
}

std::optional<std::string_view> DecodeSummary(std::string_view key, std::string_view value) {
  return Checked(key, value);
}

std::string EncodeRecord(const JournalRecord& record, const JournalChain& chain) {
  std::string value;
  value.reserve(1 + record.payload.size() + kChainBytes);
  value.push_back(static_cast<char>(record.type));
  value.append(record.payload);
  AppendChain(value, chain);
  return value;
}

std::optional<RecordView> DecodeRecord(std::string_view value) {
  if (value.size() < 1 + kChainBytes) return std::nullopt;
  const size_t end = value.size() - kChainBytes;
  return RecordView{static_cast<uint8_t>(value[0]), value.substr(1, end - 1), ReadChain(value.substr(end))};
}

std::string EncodeNumber(uint64_t number) {
  std::string value;
  AppendLittle(value, number);
  return value;
}

std::optional<uint64_t> DecodeNumber(std::string_view value) {
  if (value.size() != kWord) return std::nullopt;
  return ReadLittle(value);
}

JournalChain FirstChain(std::string_view session) { return ToChain(XXH3_128bits(session.data(), session.size())); }

JournalChain NextChain(const JournalChain& previous, uint64_t seq, uint8_t type, std::string_view payload) {
  std::string front;
  AppendChain(front, previous);
  AppendLittle(front, seq);
  front.push_back(static_cast<char>(type));
  XXH3_state_t state;
  XXH3_128bits_reset(&state);
  XXH3_128bits_update(&state, front.data(), front.size());
  XXH3_128bits_update(&state, payload.data(), payload.size());
  return ToChain(XXH3_128bits_digest(&state));
}

uint64_t Checksum(std::string_view a, std::string_view b) {
  XXH3_state_t state;
  XXH3_64bits_reset(&state);
  XXH3_64bits_update(&state, a.data(), a.size());
  XXH3_64bits_update(&state, b.data(), b.size());
  return XXH3_64bits_digest(&state);
}

}  // namespace ringside::journal_format
