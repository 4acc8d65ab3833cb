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

Result<const SessionTableOptions*> OptionsOf(SessionTable& table, const HttpRequest& request) {
  if (table.options().models == nullptr) return &table.options();
  const Result<JsonValue> body = ReadBody(request, /*may_be_empty=*/true);
  if (!body.ok()) return &table.options();
  return OptionsOf(table, CallerOf(request), *body);
}

}  // namespace ringside
