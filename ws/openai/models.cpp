#include "ws/openai/models.h"

#include <fmt/chrono.h>

#include <algorithm>
#include <ctime>
#include <nlohmann/json.hpp>
#include <utility>

#include "ws/fields/common_fields.h"

namespace ringside {
namespace {

/// llama.cpp's router has the same states, but for an unsupported file.
void DescribeState(const ServedModel& model, nlohmann::json& out) {
  nlohmann::json& ringside = out["ringside"];
  ringside["state"] = model.state;
  ringside["default"] = model.default_model;
  ringside["family"] = model.family;
  ringside["file_bytes"] = model.file_bytes;
  ringside["memory_bytes"] = model.memory_bytes;
  ringside["turns_running"] = model.running;
  ringside["turns_waiting"] = model.waiting;
  if (!model.reason.empty()) ringside["reason"] = model.reason;
  out["status"] = {{"value", model.state}};
}

// Contains the members that OpenAI's clients read, and those of Anthropic's.
nlohmann::json Describe(const ServedModel& model, const std::string& name) {
  nlohmann::json out = {
      {"id", name},
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
       {{"session_len", model.session_len},
        {"memory_len", model.memory_len},
        {"pinned_max", model.pinned_max},
        {"max_request_bytes", model.request_bytes}}},
      {"defaults",
       {{"temperature", model.sampling.temperature},
        {"top_p", model.sampling.top_p},
        {"top_k", model.sampling.top_k},
        {"min_p", model.sampling.min_p},
        {"repetition_penalty", model.sampling.repetition_penalty},
        {"max_output_tokens", model.max_output_tokens}}}};
  if (model.images) out["input_modalities"] = {"text", "image"};
  if (!model.state.empty()) DescribeState(model, out);
  return out;
}

/// The name comes from a file: invalid UTF-8 becomes U+FFFD instead of an exception.
HttpResponse ModelResponse(const nlohmann::json& value) {
  return JsonResponse(value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
}

HttpResponse GetModel(const std::vector<ServedModel>& models, const std::string& id) {
  for (const ServedModel& model : models) {
    const bool served = id == model.name || std::ranges::count(model.adapters, id) > 0 || IsAlias(id, model.aliases);
    if (served) return ModelResponse(Describe(model, id));
  }
  return ErrorResponse(NotFound("The model '" + id + "' does not exist.", "model", "model_not_found"));
}

HttpResponse ListAll(const std::vector<ServedModel>& models) {
  nlohmann::json all = nlohmann::json::array();
  for (const ServedModel& model : models) {
    all.push_back(Describe(model, model.name));
    for (const std::string& adapter : model.adapters) all.push_back(Describe(model, adapter));
    for (const std::string& alias : model.aliases) {
      if (!alias.ends_with('*')) all.push_back(Describe(model, alias));
    }
  }
  const auto id_of = [](const nlohmann::json& model) { return model["id"]; };
  return ModelResponse({{"object", "list"},
                        {"data", all},
                        {"first_id", all.empty() ? nlohmann::json() : id_of(all.front())},
                        {"last_id", all.empty() ? nlohmann::json() : id_of(all.back())},
                        {"has_more", false}});
}

/// As LM Studio describes a model. Its clients know the formats gguf and mlx only.
nlohmann::json DescribeForLmStudio(const ServedModel& model) {
  const size_t slash = model.name.rfind('/');
  return {{"id", model.name},
          {"object", "model"},
          {"type", model.images ? "vlm" : "llm"},
          {"publisher", slash == std::string::npos ? "" : model.name.substr(0, slash)},
          {"arch", model.family},
          {"compatibility_type", "gguf"},
          {"quantization", ""},
          {"state", model.state.empty() || model.state == "loaded" ? "loaded" : "not-loaded"},
          {"max_context_length", model.request_len}};
}

HttpResponse ListForLmStudio(const std::vector<ServedModel>& models) {
  nlohmann::json all = nlohmann::json::array();
  for (const ServedModel& model : models) {
    if (model.state != "unsupported") all.push_back(DescribeForLmStudio(model));
  }
  return ModelResponse({{"object", "list"}, {"data", all}});
}

}  // namespace

void AddModelRoutes(Router& router, const ServedModel& model) {
  AddModelRoutes(router, [model] { return std::vector<ServedModel>{model}; });
}

void AddModelRoutes(Router& router, const ListServedModels& list) {
  for (const char* path : {"/v1/models", "/models"}) {  // llama.cpp's router has both
    router.Add("GET", path, [list](const HttpRequest&, const Router::Parameters&) { return ListAll(list()); });
  }
  router.Add("GET", "/api/v0/models",
             [list](const HttpRequest&, const Router::Parameters&) { return ListForLmStudio(list()); });
  router.Add("GET", "/v1/models/{id}",
             [list](const HttpRequest&, const Router::Parameters& ids) { return GetModel(list(), ids[0]); });
  router.AllowEscapedSlashes("/v1/models/{id}");  // the stock SDKs write "owner%2Fname"
  // "owner/name" as on Hugging Face.
  router.Add("GET", "/v1/models/{owner}/{name}", [list](const HttpRequest&, const Router::Parameters& ids) {
    return GetModel(list(), ids[0] + "/" + ids[1]);
  });
}

}  // namespace ringside
