#include "ws/openai/shares.h"

#include <memory>
#include <optional>
#include <utility>

#include "ws/content/response_objects.h"
#include "ws/fields/common_fields.h"
#include "ws/fields/ignored_report.h"
#include "ws/json/json_writer.h"
#include "ws/openai/responses/responses_paging.h"
#include "ws/transport/limits/failed_keys.h"

namespace ringside {
namespace {

constexpr int64_t kLeastShareSeconds = 60, kMostShareSeconds = 366 * 86400;
constexpr const char* kSharedPath = "/v1/shared";

struct ShareRequest {
  std::optional<int64_t> expires_in;
};

const FieldTable<ShareRequest>& ShareTable() {
  static const FieldTable<ShareRequest> table(
      {{"expires_in", &ShareRequest::expires_in, Range{kLeastShareSeconds, kMostShareSeconds}}});
  return table;
}

void WriteShare(JsonWriter& json, const Share& share) {
  json.Field("id", share.id).Field("object", "conversation.share");
  json.Field("created_at", static_cast<int64_t>(share.created_at)).Key("expires_at");
  share.expires_at > 0 ? json.Value(static_cast<int64_t>(share.expires_at)) : json.Null();
}

Result<std::string> CreateShare(SessionTable& table, const HttpRequest& request, const std::string& id,
                                IgnoredFields* ignored) {
  ASSIGN_OR_RETURN(const JsonValue body, ReadBody(request, /*may_be_empty=*/true));
  ShareRequest asked;
  RETURN_IF_ERROR(ShareTable().Read(body, {table.options(), ignored}, &asked));
  ASSIGN_OR_RETURN(const NewShare made, table.ShareSession(CallerOf(request), id, asked.expires_in.value_or(0)));
  JsonWriter json;
  json.BeginObject();
  WriteShare(json, made.share);
  // A fragment: browsers send it neither to this server nor, as a referrer, to another one.
  json.Field("token", made.token).Field("path", "/shared#" + made.token);
  return json.EndObject().Take();
}

Result<std::string> ListLinks(const SessionTable& table, const HttpRequest& request, const std::string& id) {
  ASSIGN_OR_RETURN(const std::vector<Share> shares, table.ListShares(CallerOf(request), id));
  JsonWriter json;
  json.BeginObject().Field("object", "list").Key("data").BeginArray();
  for (const Share& share : shares) {
    json.BeginObject();
    WriteShare(json, share);
    json.EndObject();
  }
  return json.EndArray().Field("has_more", false).EndObject().Take();
}

HttpResponse AnswerShare(Result<std::string> body) {
  return body.ok() ? JsonResponse(std::move(*body)) : ErrorResponse(body.status());
}

/// The items that a link shows: no system messages.
SharedList<Item> ShownItems(const SharedList<Item>& items) {
  SharedList<Item> shown;
  for (const Item& item : items) {
    if (item.role != ChatRole::kSystem) shown.push_back(item);
  }
  return shown;
}

std::string TitleOf(const Metadata& metadata) {
  for (const auto& [key, value] : metadata) {
    if (key == "title") return value;
  }
  return "";
}

Result<std::string> ReadShared(const SessionTable& table, const HttpRequest& request, const Paging& paging) {
  constexpr std::string_view kBearer = "Bearer ";
  const std::string_view header = request.Header("authorization");
  const bool bearer = header.starts_with(kBearer);
  ASSIGN_OR_RETURN(const SharedSession shared, table.ReadShare(bearer ? header.substr(kBearer.size()) : header));
  ASSIGN_OR_RETURN(const std::string items, PageOfItems(ShownItems(shared.items), paging));
  JsonWriter json;
  json.BeginObject().Field("object", "conversation.shared").Field("title", TitleOf(shared.info.metadata));
  json.Field("created_at", static_cast<int64_t>(shared.info.created_at));
  json.Field("updated_at", static_cast<int64_t>(shared.info.updated_at));
  json.Field("answering", !shared.info.active_response_id.empty()).Key("items").Raw(items);
  return json.EndObject().Take();
}

Status TooManyReads() {
  return {StatusCode::kOverloaded, "Too many links are opened from this address.", "", "rate_limit_exceeded"};
}

}  // namespace

void AddShareRoutes(Service& service, SessionTable& table) {
  using Ids = Router::Parameters;
  Router& router = service.router;
  const std::string all = "/v1/conversations/{id}/shares";
  router.Add("POST", all, [&table](const HttpRequest& r, const Ids& ids) {
    IgnoredFields ignored(table.options().strict_requests);
    Result<std::string> made = CreateShare(table, r, ids[0], &ignored);
    return Reported(AnswerShare(std::move(made)), table.options(), r, ignored.names());
  });
  router.Add("GET", all,
             [&table](const HttpRequest& r, const Ids& ids) { return AnswerShare(ListLinks(table, r, ids[0])); });
  router.Add("DELETE", all + "/{share}", [&table](const HttpRequest& r, const Ids& ids) {
    const Status gone = table.RevokeShare(CallerOf(r), ids[0], ids[1]);
    if (!gone.ok()) return ErrorResponse(gone);
    JsonWriter json;
    json.BeginObject().Field("id", ids[1]).Field("object", "conversation.share.deleted").Field("deleted", true);
    return JsonResponse(json.EndObject().Take());
  });
  // Guesses are hopeless; this bounds the reading that one address causes.
  const auto reads = std::make_shared<FailedKeys>([](const std::string&) {});
  service.open_paths.insert(kSharedPath);
  router.Add("GET", kSharedPath, [&table, reads](const HttpRequest& r, const Ids&) {
    const auto wait = reads->Count(r.address);
    HttpResponse response =
        wait.count() > 0
            ? ErrorResponse(TooManyReads(), wait.count())
            : AnsweredPage(table.options(), r, [&](const Paging& paging) { return ReadShared(table, r, paging); });
    response.headers.emplace_back("X-Robots-Tag", "noindex, nofollow");
    response.headers.emplace_back("Referrer-Policy", "no-referrer");
    return response;
  });
}

std::vector<RequestKind> ShareRequestKinds() {
  return {{"POST /v1/conversations/{id}/shares", ShareTable().Describe()}};
}

}  // namespace ringside
