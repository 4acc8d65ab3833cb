// What a load client says to a server and hears from it, in each protocol it knows: one turn as a JSON request, one
// event of the answer. Reading is lenient: what is missing or of another type is not there. Pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "clients/wire/client_event.h"

namespace ringside::client {

enum class Protocol {
  kRingside,       // a conversation of ours, over the WebSocket: only the new message is sent, lost sockets are resumed
  kResponsesWs,    // Responses over the WebSocket, chained by previous_response_id
  kResponsesHttp,  // the same over HTTP, streamed
  kChat,           // /chat/completions, streamed: the whole history each time
  kCompletions,    // /completions, streamed: the whole history as one text
};

/// "ringside", "responses-ws", "responses-http", "chat", "completions".
std::optional<Protocol> ProtocolNamed(std::string_view name);
const char* ProtocolName(Protocol protocol);
std::vector<std::string> ProtocolNames();

/// What one conversation's next request is made of.
struct TalkState {
  std::string model;                  // "" = not said
  std::vector<InputMessage> history;  // said and heard so far
  std::string previous_response_id;
  int max_tokens = 64;
  bool ignore_eos = false;  // answers of exactly max_tokens, where the server knows the field
};

/// The request that says `text`, which is not in the history yet. Not for kRingside.
std::string EncodeTurn(Protocol protocol, const TalkState& state, const std::string& text);
/// Below the base path; of the HTTP protocols.
const char* TurnPath(Protocol protocol);

struct TokenUsage {
  int64_t input = 0, cached = 0, output = 0;
};

/// What one event says.
struct HeardEvent {
  std::string text;         // the answer goes on
  std::string response_id;  // to be continued
  std::string reasoning;    // a piece of the reasoning, which is output but no part of the answer
  std::optional<TokenUsage> usage;
  bool ends = false;
  std::string error, message;  // a kind in one word, and the server's sentence; with `ends`
};
HeardEvent ReadEvent(Protocol protocol, std::string_view data);
/// The same of a refusal: an HTTP status and its body.
HeardEvent ReadRefusal(int status, std::string_view body);

}  // namespace ringside::client
