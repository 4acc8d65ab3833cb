// Texts, messages and token ids made of one another, as other servers tell them (vLLM, llama.cpp). Handlers run on
// workers.
#pragma once

#include "ws/chat/stateless_answers.h"
#include "ws/transport/http/http.h"

namespace ringside {

/// POST /tokenize. The text is `prompt`, of which the ids are those that /v1/completions makes, or, as llama.cpp calls
/// it, `content`, which gets no token in front; `add_special_tokens` or `add_special` asks for the one or the other.
/// Special tokens in the text are read as such. Of `messages`: the ids that /v1/chat/completions makes of them.
HttpResponse Tokenize(const ChatService& service, const HttpRequest& request);
/// POST /detokenize: the text of `tokens`.
HttpResponse Detokenize(const ChatService& service, const HttpRequest& request);
/// POST /apply-template: the text that the model reads of `messages`.
HttpResponse ApplyTemplate(const ChatService& service, const HttpRequest& request);

}  // namespace ringside
