// The routes of this room: stateless requests, by the names that others gave them. Called once, before serving.
#pragma once

#include <vector>

#include "ws/chat/ollama/ollama.h"
#include "ws/chat/server_facts.h"
#include "ws/chat/stateless_answers.h"
#include "ws/fields/field_info.h"
#include "ws/transport/http/http.h"

namespace ringside {

/// The table of `service` outlives the routes.
void RegisterChatRoutes(Router& router, const ChatService& service, const ServerFacts& facts);
/// The requests of these routes that have fields.
std::vector<RequestKind> ChatRequestKinds();

}  // namespace ringside
