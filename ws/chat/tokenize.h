// POST /tokenize: the token ids of a text, as other servers tell them (vLLM, llama.cpp). Handlers run on workers.
#pragma once

#include "ws/chat/stateless_answers.h"
#include "ws/transport/http/http.h"

namespace ringside {

/// The text is `prompt` or, as llama.cpp calls it, `content`; special tokens in it are read as such, and none is added:
/// the ids are what /v1/completions makes of the same prompt.
HttpResponse Tokenize(const ChatService& service, const HttpRequest& request);

}  // namespace ringside
