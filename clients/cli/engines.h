// `ringside engines`: what a server's engines do, and emptying one of them. Blocking.
#pragma once

#include "clients/cli/options.h"

namespace ringside::client {

/// Lists them, or drains or resumes one: the server answers at once, and the conversations leave beside the work.
/// Returns the exit status: 0, or 1 with a sentence on standard error.
int LookAfterEngines(const ServerAccess& server, const EnginesOptions& options);

}  // namespace ringside::client
