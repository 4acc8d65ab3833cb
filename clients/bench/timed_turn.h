// Runs one turn to its end and times it as its user would. Blocking.
#pragma once

#include "clients/chat/chat_client.h"

namespace ringside::client {

struct TimedTurn {
  double ttft_ms = 0;   // from sending to the first text, or to the end if there is none
  double total_ms = 0;  // to the end
  std::string text;
  TurnReport report;
};

/// Fails if the turn is refused, fails or is lost; a truncated answer is accepted.
Outcome<TimedTurn> RunTimedTurn(ChatClient& client, TurnRequest turn);
/// Keeps the first `to` items.
Outcome<Done> RunRewind(ChatClient& client, const std::string& conversation, int64_t to);

}  // namespace ringside::client
