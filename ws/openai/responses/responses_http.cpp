// Responses over HTTP: look-up, replay, cancellation, deletion.
#include "ws/content/response_request.h"
#include "ws/fields/common_fields.h"
#include "ws/fields/ignored_report.h"
#include "ws/json/json_writer.h"
#include "ws/openai/responses/responses.h"
#include "ws/openai/responses/responses_delivery.h"
#include "ws/openai/responses/responses_paging.h"
#include "ws/openai/responses/responses_post.h"
#include "ws/openai/responses/responses_socket.h"
#include "ws/transport/http/http.h"

namespace ringside {
namespace {

HttpResponse Stream(SessionTable& table, const HttpRequest& request, const std::string& id, uint64_t from) {
  // Checked first, so that an error is an HTTP status, not an event of the stream.
  const Status found = table.FindResponse(CallerOf(request), id);
  if (!found.ok()) return ErrorResponse(found);
  return StreamEvents(table, CallerOf(request), id, from);
}

struct ResponseQuery {
  bool stream = false;
  uint64_t from = 0;  // first event to send
};

Status ReadStream(const JsonValue& value, const std::string&, const FieldContext&, ResponseQuery* query) {
  query->stream = value.string() == "true" || value.string() == "1";
  return Status::Ok();
}

Status ReadStart(const JsonValue& value, const std::string& param, const FieldContext&, ResponseQuery* query) {
  ASSIGN_OR_RETURN(const int64_t after, ReadQueryCount(value, param, "a sequence number"));
  query->from = static_cast<uint64_t>(after) + 1;
  return Status::Ok();
}

const FieldTable<ResponseQuery>& ResponseQueryTable() {
  static const FieldTable<ResponseQuery> table(
      {{"stream", FieldType::kAny, ReadStream, FieldPolicy::kRead, "true, 1"},
       {"starting_after", FieldType::kInteger, ReadStart, FieldPolicy::kRead, "at least 0"},
       {"include", Hint{}},
       {"include[]", Hint{}},
       {"include_obfuscation", Hint{{"false"}}}});
  return table;
}

/// A request without fields.
const FieldTable<NoFields>& CancelFields() {
  static const FieldTable<NoFields> table({});
  return table;
}

HttpResponse GetResponse(SessionTable& table, const HttpRequest& request, const std::string& id) {
  IgnoredFields ignored(table.options().strict_requests);
  ResponseQuery query;
  const Status read = ResponseQueryTable().ReadQuery(request, {table.options(), &ignored}, &query);
  if (!read.ok()) return ErrorResponse(read);
  HttpResponse answer =
      query.stream ? Stream(table, request, id, query.from) : ResponseNow(table, CallerOf(request), id);
  return Reported(std::move(answer), table.options(), request, ignored.names());
}

HttpResponse ListInput(const SessionTable& table, const HttpRequest& request, const std::string& id) {
  return AnsweredPage(table.options(), request, [&](const Paging& paging) -> Result<std::string> {
    ASSIGN_OR_RETURN(const SharedList<Item> items, table.GetInputItems(CallerOf(request), id));
    return PageOfItems(items, paging);
  });
}

HttpResponse Cancel(SessionTable& table, const HttpRequest& request, const std::string& id) {
  IgnoredFields ignored(table.options().strict_requests);
  const Result<JsonValue> body = ReadBody(request, /*may_be_empty=*/true);
  if (!body.ok()) return ErrorResponse(body.status());
  NoFields none;
  const Status read = CancelFields().Read(*body, {table.options(), &ignored}, &none);
  if (!read.ok()) return ErrorResponse(read);
  const Status cancelled = table.Cancel(CallerOf(request), id);
  HttpResponse answer =
      cancelled.ok() ? AwaitEnd(table, CallerOf(request), id, WhenFailed::kTellResponse) : ErrorResponse(cancelled);
  return Reported(std::move(answer), table.options(), request, ignored.names());
}

}  // namespace

void RegisterResponseRoutes(Router& router, SessionTable& table, const RetryAfter& retry_after_ms) {
  using Ids = Router::Parameters;
  const std::string all = "/v1/responses", one = all + "/{id}";
  router.Add("POST", all, [&table, retry_after_ms](const HttpRequest& r, const Ids&) {
    return CreateResponse(table, r, retry_after_ms);
  });
  // Added before the pattern that would match these words as ids.
  router.Add("POST", all + "/input_tokens",
             [&table](const HttpRequest& r, const Ids&) { return CountInputTokens(table, r); });
  router.Add("POST", all + "/compact",
             [&table](const HttpRequest& r, const Ids&) { return CompactResponse(table, r); });
  router.Add("GET", one, [&table](const HttpRequest& r, const Ids& ids) { return GetResponse(table, r, ids[0]); });
  router.Add("DELETE", one, [&table](const HttpRequest& r, const Ids& ids) {
    const Status gone = table.DeleteResponse(CallerOf(r), ids[0]);
    if (!gone.ok()) return ErrorResponse(gone);
    JsonWriter json;
    json.BeginObject().Field("id", ids[0]).Field("object", "response.deleted").Field("deleted", true);
    return JsonResponse(json.EndObject().Take());
  });
  router.Add("POST", one + "/cancel",
             [&table](const HttpRequest& r, const Ids& ids) { return Cancel(table, r, ids[0]); });
  router.AnswerWhileDraining("POST", one + "/cancel");
  router.Add("GET", one + "/input_items",
             [&table](const HttpRequest& r, const Ids& ids) { return ListInput(table, r, ids[0]); });
}

std::vector<RequestKind> ResponseHttpKinds() {
  RequestKind create = CreateKind(/*http=*/true);
  return {create,
          {"POST /v1/responses/input_tokens", create.fields},
          {"GET /v1/responses/{id}", ResponseQueryTable().Describe()},
          {"POST /v1/responses/{id}/cancel", CancelFields().Describe()},
          {"GET /v1/responses/{id}/input_items", PagingFields()}};
}

}  // namespace ringside
