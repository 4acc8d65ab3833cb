#include "ws/content/asked_model.h"

#include <string>

#include "ws/fields/common_fields.h"

namespace ringside {
namespace {

/// The string member `name`; "" if there is none.
std::string MemberOf(const JsonValue& body, std::string_view name) {
  const JsonValue* value = body.is_object() ? body.Find(name) : nullptr;
  return value != nullptr && value->is_string() ? value->string() : "";
}

}  // namespace

Result<const SessionTableOptions*> OptionsOf(SessionTable& table, const Caller& caller, const JsonValue& body) {
  if (table.options().models == nullptr) return &table.options();
  std::string model = MemberOf(body, "model");
  if (model.empty()) model = MemberOf(body, "name");  // Ollama's older clients
  std::string conversation = MemberOf(body, "conversation");
  if (const JsonValue* object = body.is_object() ? body.Find("conversation") : nullptr; object != nullptr) {
    if (object->is_object()) conversation = MemberOf(*object, "id");
  }
  return table.OptionsFor(caller, model, conversation, MemberOf(body, "previous_response_id"));
}

Result<AskedBody> ReadAskedBody(SessionTable& table, const HttpRequest& request) {
  AskedBody asked;
  ASSIGN_OR_RETURN(asked.json, ReadBody(request));
  ASSIGN_OR_RETURN(asked.options, OptionsOf(table, CallerOf(request), asked.json));
  return asked;
}

}  // namespace ringside
