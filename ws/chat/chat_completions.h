// POST /v1/chat/completions: OpenAI's chat requests, each with its whole history.
// THREAD: handlers run on workers.
#pragma once

#include "ws/chat/stateless_answers.h"
#include "ws/fields/field_info.h"
#include "ws/transport/http/http.h"

namespace ringside {

HttpResponse CreateChatCompletion(const ChatService& service, const HttpRequest& request);
RequestKind ChatCompletionKind();

}  // namespace ringside
