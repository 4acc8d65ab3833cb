// A conversation on its way from one server to another, as bytes: what `export` gives and `import` takes. Whoever sends
// such bytes may have made them himself, so reading them holds them to every limit of the ordinary requests before
// there is memory for what they claim to hold. Pure functions; any thread.
//
//   "ringside session 1\n", string created, string timeline, check u64
//
// The strings are the payloads of a "created" and a "timeline" record (session/records.h), each behind its length; the
// check is XXH3-64 of everything before it.
#pragma once

#include <string>
#include <string_view>

#include "session/records.h"

namespace ringside {

std::string EncodePortable(const CreatedRecord& created, const TimelineRecord& timeline);

struct PortableSession {
  CreatedRecord created;
  TimelinePatch timeline;  // of an empty one; Timeline::Apply judges ids and ranges
};
/// kInvalidArgument, param "body", naming what is wrong: no export, damaged, or beyond a limit of the ordinary requests
/// (items, their ids, metadata, lengths of texts, UTF-8). `max_tokens` binds conversations in the token ids of `codec`:
/// another codec's ids are only good for being forgotten.
Result<PortableSession> DecodePortable(std::string_view bytes, const std::string& codec, int64_t max_tokens);

}  // namespace ringside
