#include "session/table/portable_session.h"

#include <xxhash.h>

#include <algorithm>
#include <unordered_set>

#include "base/bytes.h"
#include "base/hmac.h"
#include "base/limits.h"
#include "engine/text/unicode.h"
#include "session/ids.h"
#include "session/image_records.h"

namespace ringside {
namespace {

constexpr std::string_view kMagic = "ringside session 2\n";
constexpr size_t kCheckBytes = 8;

Status NoExport(const char* what) {
  return InvalidArgument(std::string("These bytes are no exported conversation: ") + what + ".", "body",
                         "invalid_value");
}

std::string Check(std::string_view bytes) {
  ByteWriter check;
  check.Fixed64(XXH3_64bits(bytes.data(), bytes.size()));
  return check.Take();
}

bool IsText(std::string_view text, int64_t max_bytes) {
  if (text.size() > static_cast<size_t>(max_bytes)) return false;
  while (!text.empty()) {
    const Utf8Unit unit = ReadUtf8Unit(text);
    if (unit.kind != Utf8Unit::Kind::kCharacter) return false;
    text.remove_prefix(unit.length);
  }
  return true;
}

bool IsMetadata(const Metadata& metadata) {
  std::unordered_set<std::string_view> keys;
  for (const auto& [key, value] : metadata) {
    if (!IsText(key, limits::kMaxMetadataKeyBytes) || !IsText(value, limits::kMaxMetadataValueBytes)) return false;
    if (!keys.insert(key).second) return false;
  }
  return metadata.size() <= static_cast<size_t>(limits::kMaxMetadataEntries);
}

/// Values above this server's limits are clamped, and kept for a server that allows them.
bool IsWindow(const WindowOverrides& window) {
  return window.memory_len.value_or(1) >= 1 && window.session_len.value_or(1) >= 1;
}

/// Checks the limits of requests and answers; an answer may be longer than a request.
bool AreItems(const std::vector<Item>& items) {
  std::unordered_set<std::string_view> ids;
  for (const Item& item : items) {
    const bool answer = item.sampled || !item.complete;
    if (!IsId("msg_", item.id) || !ids.insert(item.id).second) return false;
    if (answer && item.role != ChatRole::kAssistant) return false;
    if (!IsText(item.call_ids, limits::kMaxMessageBytes)) return false;
    if (!IsText(item.text, answer ? INT64_MAX : limits::kMaxMessageBytes)) return false;
  }
  return true;
}

}  // namespace

std::string EncodePortable(const SealKey& key, const CreatedRecord& created, const TimelineRecord& timeline) {
  ByteWriter out;
  out.String(Encode(created).payload);
  out.String(Encode(timeline).payload);
  for (const JournalRecord& image : ImageRecords(timeline.patch, Timeline())) out.String(image.payload);
  std::string bytes = std::string(kMagic) + out.Take();
  bytes += Check(bytes);
  return bytes + HmacSha256(key, bytes);
}

Result<PortableSession> DecodePortable(std::string_view bytes, const ImportRules& rules) {
  if (!bytes.starts_with(kMagic)) return NoExport("they begin otherwise");
  if (bytes.size() < kMagic.size() + kCheckBytes + kHmacBytes) return NoExport("they are cut");
  const std::string_view sealed = bytes.substr(0, bytes.size() - kHmacBytes);
  const std::string_view content = sealed.substr(0, sealed.size() - kCheckBytes);
  if (sealed.substr(content.size()) != Check(content)) return NoExport("they are damaged");
  if (!rules.accept_foreign && !IsHmac(rules.key, sealed, bytes.substr(sealed.size()))) {
    return InvalidArgument(
        "This conversation is not sealed with this server's export key. Servers that exchange "
        "conversations share one --export-key-file.",
        "body", "foreign_export");
  }
  ByteReader in(content.substr(kMagic.size()));
  const std::string_view created_bytes = in.View(), timeline_bytes = in.View();
  if (!in.ok()) return NoExport("they are cut");
  ImageFiles images;
  while (!in.done()) {
    if (!images.Add(in.View(), /*checked=*/true).ok()) return NoExport("an image of theirs is none");
  }
  Result<CreatedRecord> created = DecodeCreated(created_bytes);
  if (!created.ok() || !IsMetadata(created->metadata)) return NoExport("their metadata is none");
  if (!IsWindow(created->window)) return NoExport("their window is none");
  if (!IsText(created->window.adapter, limits::kMaxAdapterNameBytes)) return NoExport("their adapter has no name");
  if (!IsText(created->window.model, limits::kMaxAdapterNameBytes)) return NoExport("their model has no name");
  Result<TimelineRecord> record = DecodeImportedTimeline(
      timeline_bytes, SameCodec(created->codec, rules.codec) ? rules.max_tokens
                                                             : std::max(rules.max_tokens, limits::kMaxForeignTokens));
  if (record.status().code() == StatusCode::kInvalidArgument) return record.status();
  if (!record.ok() || record->patch.answer_begin != -1) return NoExport("they make no sense");
  if (!images.Resolve(&record->patch).ok()) return NoExport("they lack an image");
  if (!AreItems(record->patch.items)) return NoExport("they hold items that no server makes");
  const std::string& instructions = record->patch.instructions.value_or("");
  if (!IsText(instructions, limits::kMaxMessageBytes)) return NoExport("their instructions are no text, or too long");
  if (record->patch.tools && !IsText(*record->patch.tools, limits::kMaxGrammarTextBytes)) {
    return NoExport("their tools are no text, or too long");
  }
  return PortableSession{std::move(*created), std::move(record->patch)};
}

}  // namespace ringside
