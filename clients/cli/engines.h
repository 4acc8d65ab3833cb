// `ringside engines`: shows the state of a server's engines, and drains one. Blocking.
#pragma once

#include "clients/cli/options.h"

namespace ringside::client {

/// Lists the engines, or drains or resumes one: the server answers at once and moves the conversations in the
/// background. Returns the exit status: 0, or 1 with a message on standard error.
int LookAfterEngines(const ServerAccess& server, const EnginesOptions& options);

}  // namespace ringside::client
