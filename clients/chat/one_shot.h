// One question, one answer: for pipes and scripts. The answer goes to standard output, everything else to standard
// error.
#pragma once

#include "clients/chat/chat_options.h"
#include "clients/wire/server_access.h"

namespace ringside::client {

/// Reads standard input if it is no terminal. Returns the exit code: 0; 1 with a sentence on standard error if there is
/// no whole answer; 2 if there is nothing to ask; 130 after Ctrl-C.
int AnswerOnce(const ServerAccess& server, const ChatOptions& options);

}  // namespace ringside::client
