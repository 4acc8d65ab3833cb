// POST /v1/messages and /v1/messages/count_tokens: Anthropic's API.
// THREAD: handlers run on workers.
#pragma once

#include <vector>

#include "ws/chat/stateless_answers.h"
#include "ws/fields/field_info.h"
#include "ws/transport/http/http.h"

namespace ringside {

/// Adds these routes, and refusals of batches.
void AddAnthropicRoutes(Router& router, const ChatService& service);
std::vector<RequestKind> AnthropicKinds();

}  // namespace ringside
