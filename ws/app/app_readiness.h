// What /readyz and the service manager learn of the workers and of the store: sentences for a person, "" where all is
// well. Pure functions of what the parts report.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"
#include "base/worker_pool.h"
#include "session/journal/journal.h"

namespace ringside {

// Requests are bounded to seconds of work; beyond these times something hangs.
constexpr int64_t kLongestStallMs = 10'000;  // without a free worker
constexpr int64_t kLongestCallMs = 60'000;   // of one call on a worker
constexpr int64_t kLongestWriteMs = 5'000;   // of one synced write of the journal

std::string WorkersTrouble(const WorkerPoolStats& workers);
/// `check` is what Journal::Check returned last, `stats` are the journal's now.
std::string StoreTrouble(const Status& check, const JournalStats& stats);

}  // namespace ringside
