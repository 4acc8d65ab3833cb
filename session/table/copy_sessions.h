// Copies the sessions of one store to another, with their ids, records and ages: between a folder and a shared store.
// THREAD: one; blocks.
#pragma once

#include <cstdint>
#include <functional>

#include "session/journal/journal.h"

namespace ringside {

struct CopiedSessions {
  int64_t copied = 0;
  int64_t present = 0;  // already in `to`; left as they are there
  int64_t failed = 0;   // damaged, or in use by another server; logged
};

/// Caches are not copied: they are recomputed. What `to` has is never replaced, so an interrupted copy can be repeated.
/// `progress` is called after every session.
/// ERRORS: kIo, kUnavailable of either store, and of the copies `to` has all that were made before.
Result<CopiedSessions> CopySessions(Journal& from, Journal& to,
                                    const std::function<void(const CopiedSessions&)>& progress);

}  // namespace ringside
