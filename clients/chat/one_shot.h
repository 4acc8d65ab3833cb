// One question, one answer: for pipes and scripts. The answer goes to standard output, everything else to standard
// error.
#pragma once

#include "clients/chat/chat_options.h"
#include "clients/wire/server_access.h"

namespace ringside::client {

/// Reads standard input unless it is a terminal. Returns the exit code: 0; 1 if there is no complete answer, with a
/// message on standard error; 2 if there is no question; 130 after Ctrl-C.
int AnswerOnce(const ServerAccess& server, const ChatOptions& options);

}  // namespace ringside::client
