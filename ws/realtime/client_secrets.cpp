#include "ws/realtime/client_secrets.h"

#include "ws/fields/common_fields.h"
#include "ws/fields/ignored_report.h"
#include "ws/json/json_text.h"
#include "ws/json/json_writer.h"
#include "ws/realtime/realtime_settings.h"

namespace ringside {
namespace {

constexpr int64_t kUsualSeconds = 600;
constexpr size_t kMostSessionBytes = 320 << 10;  // tools are limited to 256 KiB

struct Asked {
  int64_t seconds = kUsualSeconds;
  RealtimeSettings settings;
  std::string session;  // the given settings as JSON
};

Status CheckAnchor(const JsonValue& value, const std::string& param, const FieldContext&, void*) {
  if (value.string() == "created_at") return Status::Ok();
  return InvalidArgument("The only anchor is 'created_at'.", param, "invalid_value");
}

const FieldTable<Asked>& SecretTable() {
  static const FieldTable<Asked> expiry(
      {{"seconds", &Asked::seconds, Range{TicketBox::kLeastSeconds, TicketBox::kMostSeconds}},
       {"anchor", FieldType::kString, CheckAnchor, FieldPolicy::kRead, "created_at"}});
  static const FieldTable<Asked> table(
      Join(Fields<Asked>{{"expires_after", expiry}, {"session", &Asked::settings, SettingsTable()}}, ForeignFields()));
  return table;
}

Result<Asked> ReadRequest(const HttpRequest& request, const SessionTableOptions& options, IgnoredFields* ignored) {
  ASSIGN_OR_RETURN(const JsonValue body, ReadBody(request, /*may_be_empty=*/true));
  Asked asked;
  RETURN_IF_ERROR(SecretTable().Read(body, {options, ignored}, &asked));
  const JsonValue* const session = body.Find("session");
  if (session == nullptr) return asked;
  JsonWriter json;
  WriteJson(json, *session);
  asked.session = json.Take();
  if (asked.session.size() <= kMostSessionBytes) return asked;
  return InvalidArgument("A session has at most " + std::to_string(kMostSessionBytes) + " bytes here.", "session",
                         "string_above_max_length");
}

HttpResponse Issue(TicketBox& tickets, const SessionTableOptions& options, const Clock& clock,
                   const HttpRequest& request) {
  IgnoredFields ignored(options.strict_requests);
  Result<Asked> asked = ReadRequest(request, options, &ignored);
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

RequestKind ClientSecretKind() { return {"POST /v1/realtime/client_secrets", SecretTable().Describe()}; }

}  // namespace ringside
