// How the journal's rows look: keys, values, checksums and the hash chain that binds the records of a session. Pure
// functions; any thread. Numbers in keys are big-endian, so that rows sort by them; numbers in values little-endian.
//
//   key                                  value
//   'm' name                             a number or a name: schema, boot, clean boot, uptime; "key": see below
//   'h' length(id) id 0x00               head: seq u64, chain 16 bytes, boot u64, check u64
//   'h' length(id) id 0x01               summary: the session layer's bytes, check u64
//   'h' length(id) id 0x02               data key, sealed with the master key (an encrypted log only)
//   'r' length(id) id seq                record: type u8, payload, chain 16 bytes
//   'x' length(id) id                    erased, its bytes not purged yet: empty
//
// chain(0) = XXH3-128(id); chain(n) = XXH3-128(chain(n-1), n, type, payload). check = XXH3-64 of the key and the bytes
// before it. Both find damage and lost or exchanged rows; neither proves who wrote them.
//
// In an encrypted log (base/sealed_box.h) payloads and summaries are sealed with the session's data key, under names
// that hold the session, and for a record its number and type; chain and check are over the stored bytes. The row "key"
// seals nothing, and with that proves a master key. Ids, numbers, types and lengths are not hidden. Erasing a session
// takes its data key away with it: rows of it that are found later cannot be read.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "session/journal/journal.h"

namespace ringside::journal_format {

/// Value of the schema row. A log with another value is not opened.
inline constexpr std::string_view kSchema = "ringside-log 1";
inline constexpr char kSchemaKey[] = "mschema";
inline constexpr char kBootKey[] = "mboot";    // number of the last start
inline constexpr char kCleanKey[] = "mclean";  // number of the last start that was closed in order

inline constexpr char kUptimeKey[] = "muptime";  // milliseconds that servers have run on this log
inline constexpr char kExportKey[] = "mexport";  // 32 bytes; only in an unencrypted log
inline constexpr char kKeyCheckKey[] = "mkey";   // only in an encrypted log

inline constexpr char kHeads = 'h', kRecords = 'r', kErased = 'x';

// Suffixes after the id in the keys of a session.
inline constexpr std::string_view kHeadRest("\0", 1), kSummaryRest("\1", 1), kDataKeyRest("\2", 1);

std::string HeadKey(std::string_view session);
std::string SummaryKey(std::string_view session);
std::string DataKeyKey(std::string_view session);
std::string RecordKey(std::string_view session, uint64_t seq);
std::string ErasedKey(std::string_view session);
/// Upper bound of the session's record keys, below those of any other session.
std::string RecordsEnd(std::string_view session);

/// Parsed key of the regions 'h', 'r' or 'x'; nullopt for other keys.
struct SessionKey {
  std::string_view session;
  std::string_view rest;  // after the id
};
std::optional<SessionKey> ParseSessionKey(std::string_view key);
/// The number in the last 8 bytes of a record's key.
std::optional<uint64_t> ParseSeq(std::string_view rest);

struct Head {
  JournalPosition last;
  uint64_t boot = 0;  // start that wrote it
};
std::string EncodeHead(std::string_view key, const Head& head);
/// nullopt = damaged.
std::optional<Head> DecodeHead(std::string_view key, std::string_view value);

std::string EncodeSummary(std::string_view key, std::string_view summary);
std::optional<std::string_view> DecodeSummary(std::string_view key, std::string_view value);

std::string EncodeRecord(const JournalRecord& record, const JournalChain& chain);
struct RecordView {
  uint8_t type;
  std::string_view payload;
  JournalChain chain;
};
/// nullopt = too short to be a record.
std::optional<RecordView> DecodeRecord(std::string_view value);

std::string EncodeNumber(uint64_t number);
std::optional<uint64_t> DecodeNumber(std::string_view value);

JournalChain FirstChain(std::string_view session);
JournalChain NextChain(const JournalChain& previous, uint64_t seq, uint8_t type, std::string_view payload);
/// XXH3-64 of the concatenation of `a` and `b`.
uint64_t Checksum(std::string_view a, std::string_view b);

}  // namespace ringside::journal_format
