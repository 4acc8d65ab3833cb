// `ringside sessions`: what one does with the conversations of a server from a shell. Main thread only.
#pragma once

#include "clients/cli/options.h"

namespace ringside::client {

/// Runs the verb of options.sessions. Returns the process's exit code: 0; 1 if anything failed; 2 for an id or a
/// file that cannot be used; 74 if verify or list finds something damaged.
int LookAfterSessions(const Options& options);

}  // namespace ringside::client
