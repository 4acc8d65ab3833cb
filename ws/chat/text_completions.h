// POST /v1/completions: prompts without a chat template, as text or token ids.
// THREAD: handlers run on workers.
#pragma once

#include "ws/chat/stateless_answers.h"
#include "ws/fields/field_info.h"
#include "ws/transport/http/http.h"

namespace ringside {

HttpResponse CreateTextCompletion(const ChatService& service, const HttpRequest& request);
RequestKind TextCompletionKind();

}  // namespace ringside
