#include "ws/chat/server_facts.h"

#include "ws/json/json_writer.h"

namespace ringside {
namespace {

/// vLLM's format.
HttpResponse Version(const ServerFacts& facts) {
  JsonWriter json;
  json.BeginObject().Field("version", facts.version);
  return JsonResponse(json.EndObject().Take());
}

/// The members of tokenizer_config.json that vLLM's clients read.
HttpResponse TokenizerInfo(const SessionTableOptions& options, const ServerFacts& facts) {
  JsonWriter json;
  json.BeginObject().Field("tokenizer_class", "ringside").Field("model_max_length", options.request_len());
  json.TextOrNull("bos_token", facts.bos).TextOrNull("eos_token", facts.eos).TextOrNull("pad_token", facts.eos);
  json.TextOrNull("chat_template", facts.chat_template);
  return JsonResponse(json.EndObject().Take());
}

/// llama.cpp's format.
HttpResponse Props(const SessionTableOptions& options, const ServerFacts& facts) {
  JsonWriter json;
  json.BeginObject().Key("default_generation_settings").BeginObject().Field("n_ctx", options.request_len());
  json.Key("params").BeginObject().Field("temperature", options.sampling.temperature);
  json.Field("top_k", options.sampling.top_k).Field("top_p", options.sampling.top_p);
  json.Field("min_p", options.sampling.min_p).Field("repeat_penalty", options.sampling.repetition_penalty);
  json.Field("n_predict", options.usual_answer()).EndObject().EndObject();
  json.Field("total_slots", facts.slots).Field("model_alias", options.model_name);
  json.Field("model_path", options.model_name).Field("chat_template", facts.chat_template);
  json.Key("modalities").BeginObject().Field("vision", options.images != nullptr).Field("audio", false).EndObject();
  json.Field("bos_token", facts.bos).Field("eos_token", facts.eos).Field("build_info", "ringside " + facts.version);
  return JsonResponse(json.EndObject().Take());
}

}  // namespace

void AddServerFactRoutes(Router& router, const SessionTableOptions& options, const ServerFacts& facts) {
  using Ids = Router::Parameters;
  router.Add("GET", "/version", [facts](const HttpRequest&, const Ids&) { return Version(facts); });
  router.Add("GET", "/tokenizer_info",
             [&options, facts](const HttpRequest&, const Ids&) { return TokenizerInfo(options, facts); });
  router.Add("GET", "/props", [&options, facts](const HttpRequest&, const Ids&) { return Props(options, facts); });
}

}  // namespace ringside
