// Loads and unloads of models that a client asks for: /models/load and /models/unload, as llama.cpp's router has them;
// also for Ollama's requests without a prompt. For keys with scope admin, because a swap delays the turns of others.
// THREAD: handlers run on workers; no thread waits for a load.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "ws/chat/stateless_answers.h"
#include "ws/fields/field_info.h"
#include "ws/transport/http/http.h"

namespace ringside {

/// Starts the change, and answers with `answer` of its result when that is known.
/// REQUIRES: `service` can change models; `model` is a listed name whose text was read (SessionTable::OptionsFor).
HttpResponse AnswerModelChange(const ChatService& service, ModelChange change, const std::string& model,
                               std::function<HttpResponse(const Status&)> answer);

void AddModelChangeRoutes(Router& router, const ChatService& service);
std::vector<RequestKind> ModelChangeKinds();

}  // namespace ringside
