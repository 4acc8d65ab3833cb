#include "ws/realtime/client_secrets.h"

#include "ws/fields/ignored_report.h"
#include "ws/json/json_text.h"
#include "ws/json/json_writer.h"
#include "ws/openai/responses/responses_fields.h"
#include "ws/realtime/realtime_settings.h"

namespace ringside {
namespace {

constexpr int64_t kUsualSeconds = 600;
constexpr size_t kMostSessionBytes = 320 << 10;  // tools have 256 KiB

Status ReadExpiry(const JsonValue& value, IgnoredFields* ignored, int64_t* seconds) {
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
      RETURN_IF_ERROR(ignored->Unknown(param));
    }
  }
  return Status::Ok();
}

struct Asked {
  int64_t seconds = kUsualSeconds;
  RealtimeSettings settings;
  std::string session;  // what was said of it, as JSON
};

Result<Asked> ReadRequest(const std::string& text, const SessionTableOptions& options, IgnoredFields* ignored) {
  ASSIGN_OR_RETURN(const JsonValue body, ParseJson(text.empty() ? std::string_view("{}") : text));
  if (!body.is_object()) return WrongType(body, "body", "an object");
  Asked asked;
  for (const auto& [name, value] : body.object()) {
    if (value.is_null()) continue;
    if (name != "session") {
      RETURN_IF_ERROR(name == "expires_after" ? ReadExpiry(value, ignored, &asked.seconds)
                                              : ignored->UnknownOfRequest(value, name));
      continue;
    }
    RETURN_IF_ERROR(UpdateSettings(value, options, &asked.settings));
    JsonWriter json;
    WriteJson(json, value);
    asked.session = json.Take();
    if (asked.session.size() > kMostSessionBytes) {
      return InvalidArgument("A session has at most " + std::to_string(kMostSessionBytes) + " bytes here.", "session",
                             "string_above_max_length");
    }
  }
  return asked;
}

HttpResponse Issue(TicketBox& tickets, const SessionTableOptions& options, const Clock& clock,
                   const HttpRequest& request) {
  IgnoredFields ignored(options.strict_requests);
  Result<Asked> asked = ReadRequest(request.body, options, &ignored);
  if (!asked.ok()) return ErrorResponse(asked.status());
  const Result<std::string> ticket =
      tickets.Issue({request.principal, request.scopes, request.key_id, std::move(asked->session)}, asked->seconds);
  if (!ticket.ok()) return ErrorResponse(ticket.status());
  JsonWriter json;
  json.BeginObject().Field("value", *ticket);
  json.Field("expires_at", static_cast<int64_t>(clock.WallSeconds()) + asked->seconds);
  json.Key("session").Raw(SettingsObject(asked->settings, options));
  WriteRingsideIgnored(json, ignored.names());
  HttpResponse response;
  response.body = json.EndObject().Take();
  return Reported(std::move(response), options, request, ignored.names());
}

}  // namespace

void RegisterClientSecretRoutes(Router& router, TicketBox& tickets, const SessionTableOptions& options,
                                const Clock& clock) {
  router.Add("POST", "/v1/realtime/client_secrets",
             [&tickets, &options, &clock](const HttpRequest& r, const Router::Parameters&) {
               return Issue(tickets, options, clock, r);
             });
}

}  // namespace ringside
