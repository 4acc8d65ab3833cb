// State of the workers and the store for /readyz and the service manager: a sentence, or "" when healthy. Pure
// functions of the parts' statistics.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"
#include "base/worker_pool.h"
#include "session/journal/journal.h"

namespace ringside {

// Requests are bounded to seconds of work; longer times mean a hang.
constexpr int64_t kLongestStallMs = 10'000;  // without a free worker
constexpr int64_t kLongestCallMs = 60'000;   // of one call on a worker
constexpr int64_t kLongestWriteMs = 5'000;   // of one synced write of the journal

std::string WorkersTrouble(const WorkerPoolStats& workers);
/// `check` is the latest result of Journal::Check, `stats` are the journal's current statistics.
std::string StoreTrouble(const Status& check, const JournalStats& stats);

}  // namespace ringside
