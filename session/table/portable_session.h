// Portable form of a conversation, as bytes: written by `export`, read by `import`. The bytes are untrusted: decoding
// enforces every limit of ordinary requests before it allocates memory for the claimed contents. Pure functions.
// THREAD: any.
// Format: "ringside session 2\n", string created, string timeline, string image ..., check u64, seal 32 bytes. The
// strings are the payloads of a "created", a "timeline" and "image" records (session/records.h), each after its length.
// The check is XXH3-64 of everything before it and detects damage; the seal is HMAC-SHA256 of everything before it
// under the server's export key and authenticates the origin.
#pragma once

#include <string>
#include <string_view>

#include "base/sealed_box.h"
#include "session/records.h"

namespace ringside {

/// Limit of an export, and of the body of an import: an owner's share of all requests' bodies.
inline constexpr int64_t kMaxPortableBytes = 128 << 20;

std::string EncodePortable(const SealKey& key, const CreatedRecord& created, const TimelineRecord& timeline);

struct PortableSession {
  CreatedRecord created;
  TimelinePatch timeline;  // relative to an empty timeline; Timeline::Apply checks ids and ranges
};
/// What a server accepts.
struct ImportRules {
  const SealKey& key;           // key of its own exports
  bool accept_foreign = false;  // accept other servers' exports
  const std::string& codec;     // codec of its token ids
  // limit for conversations with those ids; ids of other codecs are discarded, but bounded
  int64_t max_tokens = 0;
  // as well (kMaxForeignTokens), because the sender names the codec
};
/// ERRORS: kInvalidArgument, param "body", naming the fault: not an export, damaged, sealed with another key
/// (foreign_export), or above a limit of ordinary requests (items, their ids, metadata, lengths of texts, UTF-8).
Result<PortableSession> DecodePortable(std::string_view bytes, const ImportRules& rules);

}  // namespace ringside
