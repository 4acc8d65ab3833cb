// Routes of the stateless protocols. Called once, before serving.
#pragma once

#include <vector>

#include "ws/chat/ollama/ollama.h"
#include "ws/chat/server_facts.h"
#include "ws/chat/stateless_answers.h"
#include "ws/fields/field_info.h"
#include "ws/transport/http/http.h"

namespace ringside {

/// REQUIRES: the table of `service` outlives the routes.
void RegisterChatRoutes(Router& router, const ChatService& service, const ServerFacts& facts);
/// Requests of these routes that have fields.
std::vector<RequestKind> ChatRequestKinds();

}  // namespace ringside
