#include "ws/chat/chat_routes.h"

#include "ws/chat/anthropic/anthropic_messages.h"
#include "ws/chat/chat_completions.h"
#include "ws/chat/embeddings.h"
#include "ws/chat/model_changes.h"
#include "ws/chat/text_completions.h"
#include "ws/chat/tokenize.h"
#include "ws/fields/field_readers.h"

namespace ringside {
namespace {

/// A completion leaves only its history's cache and text, found by sending the history again; it has no id.
void RefuseStoredCompletions(Router& router) {
  const std::string all = "/v1/chat/completions", one = all + "/{id}";
  const std::pair<const char*, std::string> routes[] = {
      {"GET", all}, {"GET", one}, {"POST", one}, {"DELETE", one}, {"GET", one + "/messages"}};
  for (const auto& [method, path] : routes) {
    router.Add(method, path, [](const HttpRequest&, const Router::Parameters&) {
      return ErrorResponse(Unsupported("",
                                       "looking up stored completions; stored responses and conversations are "
                                       "what can be listed and found again"));
    });
  }
}

}  // namespace

void RegisterChatRoutes(Router& router, const ChatService& service, const ServerFacts& facts) {
  const auto add = [&](const char* path, HttpResponse (*handle)(const ChatService&, const HttpRequest&)) {
    router.Add("POST", path, [service, handle](const HttpRequest& request, const Router::Parameters&) {
      return handle(service, request);
    });
  };
  add("/v1/chat/completions", CreateChatCompletion);
  add("/v1/completions", CreateTextCompletion);
  add("/v1/embeddings", CreateEmbeddings);
  add("/tokenize", Tokenize);
  add("/detokenize", Detokenize);
  add("/apply-template", ApplyTemplate);
  AddServerFactRoutes(router, service.table.options(), facts);
  RefuseStoredCompletions(router);
  AddModelChangeRoutes(router, service);
  AddAnthropicRoutes(router, service);
  AddOllamaRoutes(router, service, facts);
}

std::vector<RequestKind> ChatRequestKinds() {
  std::vector<RequestKind> kinds = {ChatCompletionKind(), TextCompletionKind(), EmbeddingKind()};
  for (const auto& more : {TokenizeKinds(), ModelChangeKinds(), AnthropicKinds(), OllamaKinds()}) {
    kinds.insert(kinds.end(), more.begin(), more.end());
  }
  return kinds;
}

}  // namespace ringside
