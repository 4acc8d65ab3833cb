// A conversation on its way from one server to another, as bytes: what `export` gives and `import` takes. Whoever sends
// such bytes may have made them himself, so reading them holds them to every limit of the ordinary requests before
// there is memory for what they claim to hold. Pure functions; any thread.
//
//   "ringside session 2\n", string created, string timeline, check u64, seal 32 bytes
//
// The strings are the payloads of a "created" and a "timeline" record (session/records.h), each behind its length. The
// check is XXH3-64 of everything before it and finds damage; the seal is HMAC-SHA256 of everything before it under the
// server's export key and says who made the bytes.
#pragma once

#include <string>
#include <string_view>

#include "base/sealed_box.h"
#include "session/records.h"

namespace ringside {

std::string EncodePortable(const SealKey& key, const CreatedRecord& created, const TimelineRecord& timeline);

struct PortableSession {
  CreatedRecord created;
  TimelinePatch timeline;  // of an empty one; Timeline::Apply judges ids and ranges
};
/// What a server takes in.
struct ImportRules {
  const SealKey& key;           // of its own exports
  bool accept_foreign = false;  // others' too
  const std::string& codec;     // whose token ids it uses
  int64_t max_tokens = 0;       // of conversations in these; others' ids are only good for being forgotten, but have a
                                // limit, too (kMaxForeignTokens): whoever sends them says whose they are
};
/// kInvalidArgument, param "body", naming what is wrong: no export, damaged, sealed with another key (foreign_export),
/// or beyond a limit of the ordinary requests (items, their ids, metadata, lengths of texts, UTF-8).
Result<PortableSession> DecodePortable(std::string_view bytes, const ImportRules& rules);

}  // namespace ringside
