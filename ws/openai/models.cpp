#include "ws/openai/models.h"

#include <fmt/chrono.h>

#include <algorithm>
#include <ctime>
#include <nlohmann/json.hpp>
#include <utility>

#include "ws/fields/common_fields.h"

namespace ringside {
namespace {

// Contains the members that OpenAI's clients read, and those of Anthropic's.
nlohmann::json Describe(const ServedModel& model, const std::string& name) {
  return {{"id", name},
          {"object", "model"},
          {"type", "model"},
          {"display_name", name},
          {"parent", name == model.name ? nlohmann::json() : nlohmann::json(model.name)},
          {"created_at", fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(static_cast<std::time_t>(model.created)))},
          {"created", model.created},
          {"owned_by", "ringside"},
          {"max_model_len", model.request_len},
          {"max_input_tokens", model.request_len},
          {"ringside",
           {{"session_len", model.session_len}, {"memory_len", model.memory_len}, {"pinned_max", model.pinned_max}}},
          {"defaults",
           {{"temperature", model.sampling.temperature},
            {"top_p", model.sampling.top_p},
            {"top_k", model.sampling.top_k},
            {"min_p", model.sampling.min_p},
            {"repetition_penalty", model.sampling.repetition_penalty},
            {"max_output_tokens", model.max_output_tokens}}}};
}

/// The name comes from a file: invalid UTF-8 becomes U+FFFD instead of an exception.
HttpResponse ModelResponse(const nlohmann::json& value) {
  return JsonResponse(value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
}

HttpResponse GetModel(const ServedModel& model, const std::string& id) {
  const bool served = id == model.name || std::ranges::count(model.adapters, id) > 0 || IsAlias(id, model.aliases);
  if (served) return ModelResponse(Describe(model, id));
  return ErrorResponse(NotFound("The model '" + id + "' does not exist.", "model", "model_not_found"));
}

}  // namespace

ServedModel ServedModelOf(const SessionTableOptions& options, double created_s) {
  return {.name = options.model_name,
          .created = static_cast<int64_t>(created_s),
          .request_len = options.request_len(),
          .sampling = options.sampling,
          .max_output_tokens = options.usual_answer(),
          .adapters = options.adapters,
          .session_len = options.session_len,
          .memory_len = options.memory_len,
          .pinned_max = options.pinned_max,
          .aliases = options.aliases};
}

void AddModelRoutes(Router& router, ServedModel model) {
  router.Add("GET", "/v1/models", [model](const HttpRequest&, const Router::Parameters&) {
    nlohmann::json all = nlohmann::json::array({Describe(model, model.name)});
    for (const std::string& adapter : model.adapters) all.push_back(Describe(model, adapter));
    for (const std::string& alias : model.aliases) {
      if (!alias.ends_with('*')) all.push_back(Describe(model, alias));
    }
    return ModelResponse({{"object", "list"},
                          {"data", all},
                          {"first_id", model.name},
                          {"last_id", all.back()["id"]},
                          {"has_more", false}});
  });
  router.Add("GET", "/v1/models/{id}",
             [model](const HttpRequest&, const Router::Parameters& ids) { return GetModel(model, ids[0]); });
  router.AllowEscapedSlashes("/v1/models/{id}");  // the stock SDKs write "owner%2Fname"
  // "owner/name" as on Hugging Face.
  router.Add("GET", "/v1/models/{owner}/{name}", [model](const HttpRequest&, const Router::Parameters& ids) {
    return GetModel(model, ids[0] + "/" + ids[1]);
  });
}

}  // namespace ringside
