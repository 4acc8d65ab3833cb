#include "clients/wire/models.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "base/json/json_tree.h"
#include "clients/wire/json_fields.h"

namespace ringside::client {
namespace {

using Json = nlohmann::json;

ServedModel ReadModel(const Json& described) {
  ServedModel model;
  if (std::string name = Text(described, "id"); !name.empty()) model.name = std::move(name);
  model.parent = Text(described, "parent");
  model.max_input_tokens = Count(described, "max_input_tokens");
  if (const Json* more = Find(described, "ringside"); more != nullptr) {
    model.max_request_bytes = Count(*more, "max_request_bytes");
    model.state = Text(*more, "state");
    model.reason = Text(*more, "reason");
    model.file_bytes = Count(*more, "file_bytes");
    model.memory_bytes = Count(*more, "memory_bytes");
    model.running = Count(*more, "turns_running");
    model.waiting = Count(*more, "turns_waiting");
  }
  const Json* defaults = Find(described, "defaults");
  if (defaults == nullptr || !defaults->is_object()) return model;
  for (const auto& [name, value] : defaults->items()) {
    if (value.is_number()) model.defaults[name] = value.dump();
  }
  return model;
}

}  // namespace

Outcome<std::vector<ServedModel>> ListModels(const HttpClient& http) {
  const Outcome<HttpAnswer> answer = http.Request("GET", "/models");
  if (!answer) return answer.failure();
  return ParseModels(answer->body);
}

std::vector<ServedModel> ParseModels(const std::string& body) {
  std::vector<ServedModel> models;
  const Json json = ParseJsonTree(body, kLargeJson);
  const Json* list = Find(json, "data");
  if (list == nullptr || !list->is_array()) return models;
  for (const Json& described : *list) {
    if (described.is_object()) models.push_back(ReadModel(described));
  }
  return models;
}

Outcome<ServedModel> GetModel(const HttpClient& http) {
  Outcome<std::vector<ServedModel>> models = ListModels(http);
  if (!models) return models.failure();
  return models->empty() ? ServedModel() : std::move(models->front());
}

Outcome<int64_t> CountTokens(const HttpClient& http, const std::string& text) {
  const Outcome<HttpAnswer> answer = http.Request("POST", "/responses/input_tokens", Dump({{"input", text}}));
  if (!answer) return answer.failure();
  const Json json = ParseJsonTree(answer->body);
  if (Find(json, "input_tokens") == nullptr) return Failure{"The server did not count the tokens."};
  return Count(json, "input_tokens");
}

}  // namespace ringside::client
