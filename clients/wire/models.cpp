#include "clients/wire/models.h"

#include <nlohmann/json.hpp>

#include "base/json/json_tree.h"

namespace ringside::client {

Outcome<ServedModel> GetModel(const HttpClient& http) {
  using Json = nlohmann::json;
  const Outcome<HttpAnswer> answer = http.Request("GET", "/models");
  if (!answer) return answer.failure();
  ServedModel model{.name = "a model", .defaults = {}};
  const Json json = ParseJsonTree(answer->body, kLargeJson);
  const auto first = Json::json_pointer("/data/0");
  if (!json.is_object() || !json.contains(first) || !json[first].is_object()) return model;
  const Json& told = json[first];
  if (told.contains("id") && told["id"].is_string()) model.name = told["id"].get<std::string>();
  if (!told.contains("defaults") || !told["defaults"].is_object()) return model;
  for (const auto& [name, value] : told["defaults"].items()) {
    if (value.is_number()) model.defaults[name] = value.dump();
  }
  return model;
}

}  // namespace ringside::client
