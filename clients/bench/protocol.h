// Encodes requests and decodes events for each protocol of the load client: a turn as a JSON request, one event of the
// answer. Parsing is lenient: a missing or mistyped field is ignored. Pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "clients/wire/client_event.h"

namespace ringside::client {

enum class Protocol {
  kRingside,       // our conversations over the WebSocket: only the new message is sent, lost sockets are resumed
  kResponsesWs,    // Responses over the WebSocket, chained by previous_response_id
  kResponsesHttp,  // Responses over HTTP, streamed and chained
  kChat,           // /chat/completions, streamed: the whole history each time
  kCompletions,    // /completions, streamed: the whole history as one text
};

/// "ringside", "responses-ws", "responses-http", "chat", "completions".
std::optional<Protocol> ProtocolNamed(std::string_view name);
const char* ProtocolName(Protocol protocol);
std::vector<std::string> ProtocolNames();

/// Client state from which the next request of a conversation is built.
struct TalkState {
  std::string model;                  // "" = not sent
  std::vector<InputMessage> history;  // messages and answers so far
  std::string previous_response_id;
  int max_tokens = 64;
  bool ignore_eos = false;  // force answers of exactly max_tokens, on servers with this field
};

/// Encodes a turn with `text`, which is not in the history yet. REQUIRES: not kRingside.
std::string EncodeTurn(Protocol protocol, const TalkState& state, const std::string& text);
/// Path below the base path. REQUIRES: an HTTP protocol.
const char* TurnPath(Protocol protocol);

struct TokenUsage {
  int64_t input = 0, cached = 0, output = 0;
};

/// One decoded event.
struct HeardEvent {
  std::string text;         // the answer continues
  std::string response_id;  // for previous_response_id
  std::string reasoning;    // a piece of the reasoning: counts as output, but not as part of the answer
  std::optional<TokenUsage> usage;
  bool ends = false;
  std::string error, message;  // a one-word kind and the server's message; set with `ends`
};
HeardEvent ReadEvent(Protocol protocol, std::string_view data);
/// Decodes a refusal from its HTTP status and body.
HeardEvent ReadRefusal(int status, std::string_view body);

}  // namespace ringside::client
