// `ringside sessions`: manages a server's conversations from a shell. THREAD: main.
#pragma once

#include "clients/cli/options.h"

namespace ringside::client {

/// Runs the verb of options.sessions. Returns the exit code: 0; 1 on failure; 2 for an unusable id or file; 74 if
/// verify or list finds damage.
int LookAfterSessions(const Options& options);

}  // namespace ringside::client
