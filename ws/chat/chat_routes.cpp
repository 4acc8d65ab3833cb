#include "ws/chat/chat_routes.h"

#include "ws/chat/anthropic_messages.h"
#include "ws/chat/chat_completions.h"
#include "ws/chat/text_completions.h"
#include "ws/chat/tokenize.h"

namespace ringside {

void RegisterChatRoutes(Router& router, const ChatService& service, const OllamaModel& model) {
  const auto add = [&](const char* path, HttpResponse (*handle)(const ChatService&, const HttpRequest&)) {
    router.Add("POST", path, [service, handle](const HttpRequest& request, const Router::Parameters&) {
      return handle(service, request);
    });
  };
  add("/v1/chat/completions", CreateChatCompletion);
  add("/v1/completions", CreateTextCompletion);
  add("/tokenize", Tokenize);
  add("/v1/messages", CreateAnthropicMessage);
  add("/v1/messages/count_tokens", CountAnthropicTokens);
  AddOllamaRoutes(router, service, model);
}

}  // namespace ringside
