#include "clients/wire/json_fields.h"

#include <nlohmann/json.hpp>

namespace ringside::client {

const nlohmann::json* Find(const nlohmann::json& json, const char* name) {
  if (!json.is_object()) return nullptr;
  const auto it = json.find(name);
  return it == json.end() || it->is_null() ? nullptr : &*it;
}

std::string Text(const nlohmann::json& json, const char* name) {
  const nlohmann::json* value = Find(json, name);
  return value != nullptr && value->is_string() ? value->get<std::string>() : std::string();
}

int64_t Count(const nlohmann::json& json, const char* name) {
  const nlohmann::json* value = Find(json, name);
  return value != nullptr && value->is_number() ? value->get<int64_t>() : 0;
}

std::string Dump(const nlohmann::ordered_json& json) {
  return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace ringside::client
