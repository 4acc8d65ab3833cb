// POST /v1/messages and /v1/messages/count_tokens: chats as Anthropic's clients send them. Handlers run on workers.
#pragma once

#include <vector>

#include "ws/chat/stateless_answers.h"
#include "ws/fields/field_info.h"
#include "ws/transport/http/http.h"

namespace ringside {

/// These, and refusals of their batches.
void AddAnthropicRoutes(Router& router, const ChatService& service);
std::vector<RequestKind> AnthropicKinds();

}  // namespace ringside
