// Text of answers that this server's last process was writing when it ended by a fault.
#pragma once

#include "base/status.h"
#include "session/journal/journal.h"

namespace ringside {

/// Adds what the journal's DeltaLog has of each running answer to its session, and ends it as interrupted, unless
/// another process has ended it. Starts a new log. Without a DeltaLog it does nothing. Blocks. REQUIRES: before the
/// first turn. ERRORS: kUnavailable, kIo: the store does not answer; the log is unchanged.
Status RestoreDeltas(Journal& journal);

}  // namespace ringside
