#include "ws/openai/client_secrets.h"

#include "ws/json/json_writer.h"
#include "ws/openai/responses_fields.h"

namespace ringside {
namespace {

constexpr int64_t kUsualSeconds = 600;

Status ReadExpiry(const JsonValue& value, int64_t* seconds) {
  if (!value.is_object()) return WrongType(value, "expires_after", "an object");
  for (const auto& [name, member] : value.object()) {
    const std::string param = "expires_after." + name;
    if (member.is_null()) continue;
    if (name == "seconds") {
      RETURN_IF_ERROR(ReadInteger(member, param, TicketBox::kLeastSeconds, TicketBox::kMostSeconds, seconds));
    } else if (name == "anchor") {
      if (!member.is_string() || member.string() != "created_at") {
        return InvalidArgument("The only anchor is 'created_at'.", param, "invalid_value");
      }
    } else {
      return UnknownParameter(param);
    }
  }
  return Status::Ok();
}

/// The ticket opens a socket; what the session is like is said there.
Status CheckSession(const JsonValue& value) {
  if (!value.is_object()) return WrongType(value, "session", "an object");
  for (const auto& [name, member] : value.object()) {
    const std::string param = "session." + name;
    if (member.is_null()) continue;
    if (name != "type") return Unsupported(param, "'" + param + "'; send session.update on the socket instead");
    if (!member.is_string() || member.string() != "realtime") {
      return InvalidArgument("The only type of session is 'realtime'.", param, "invalid_value");
    }
  }
  return Status::Ok();
}

Result<int64_t> ReadRequest(const std::string& text) {
  ASSIGN_OR_RETURN(const JsonValue body, ParseJson(text.empty() ? std::string_view("{}") : text));
  if (!body.is_object()) return WrongType(body, "body", "an object");
  int64_t seconds = kUsualSeconds;
  for (const auto& [name, value] : body.object()) {
    if (name != "expires_after" && name != "session") return UnknownParameter(name);
    if (value.is_null()) continue;
    RETURN_IF_ERROR(name == "session" ? CheckSession(value) : ReadExpiry(value, &seconds));
  }
  return seconds;
}

HttpResponse Issue(TicketBox& tickets, const Clock& clock, const HttpRequest& request) {
  const Result<int64_t> seconds = ReadRequest(request.body);
  if (!seconds.ok()) return ErrorResponse(seconds.status());
  const Result<std::string> ticket = tickets.Issue({request.principal, request.scopes, request.key_id}, *seconds);
  if (!ticket.ok()) return ErrorResponse(ticket.status());
  JsonWriter json;
  json.BeginObject().Field("value", *ticket);
  json.Field("expires_at", static_cast<int64_t>(clock.WallSeconds()) + *seconds);
  json.Key("session").BeginObject().Field("type", "realtime").Field("object", "realtime.session").EndObject();
  HttpResponse response;
  response.body = json.EndObject().Take();
  return response;
}

}  // namespace

void RegisterClientSecretRoutes(Router& router, TicketBox& tickets, const Clock& clock) {
  router.Add("POST", "/v1/realtime/client_secrets",
             [&tickets, &clock](const HttpRequest& r, const Router::Parameters&) { return Issue(tickets, clock, r); });
}

}  // namespace ringside
