// POST /tokenize: the token ids of a text, as other servers tell them (vLLM, llama.cpp). Handlers run on workers.
#pragma once

#include "ws/chat/stateless_answers.h"
#include "ws/transport/http/http.h"

namespace ringside {

/// The text is `prompt`, of which the ids are those that /v1/completions makes, or, as llama.cpp calls it, `content`,
/// which gets no token in front; `add_special_tokens` or `add_special` asks for the one or the other. Special tokens in
/// the text are read as such.
HttpResponse Tokenize(const ChatService& service, const HttpRequest& request);

}  // namespace ringside
