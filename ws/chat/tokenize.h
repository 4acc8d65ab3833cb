// Conversions between texts, messages and token ids in the formats of vLLM and llama.cpp.
// THREAD: handlers run on workers.
#pragma once

#include <vector>

#include "ws/chat/stateless_answers.h"
#include "ws/fields/field_info.h"
#include "ws/transport/http/http.h"

namespace ringside {

/// POST /tokenize. `prompt` gets the ids that /v1/completions computes; `content`, llama.cpp's name, gets no leading
/// token. `add_special_tokens` or `add_special` overrides either. Special tokens in the text are recognized. `messages`
/// get the ids that /v1/chat/completions computes.
HttpResponse Tokenize(const ChatService& service, const HttpRequest& request);
/// POST /detokenize: the text of `tokens`.
HttpResponse Detokenize(const ChatService& service, const HttpRequest& request);
/// POST /apply-template: the text that the model reads for `messages`.
HttpResponse ApplyTemplate(const ChatService& service, const HttpRequest& request);
std::vector<RequestKind> TokenizeKinds();

}  // namespace ringside
