// Responses over HTTP: what was answered, looked up, streamed again, cancelled, forgotten.
#include <charconv>

#include "ws/json/json_writer.h"
#include "ws/openai/responses/responses.h"
#include "ws/openai/responses/responses_delivery.h"
#include "ws/openai/responses/responses_fields.h"
#include "ws/openai/responses/responses_paging.h"
#include "ws/openai/responses/responses_post.h"
#include "ws/transport/http/http.h"

namespace ringside {
namespace {

HttpResponse Json(std::string body) {
  HttpResponse response;
  response.body = std::move(body);
  return response;
}

HttpResponse Stream(SessionTable& table, const HttpRequest& request, const std::string& id) {
  uint64_t from = 0;
  if (const std::string_view text = request.Query("starting_after"); !text.empty()) {
    int64_t after = -1;
    const auto parsed = std::from_chars(text.data(), text.data() + text.size(), after);
    if (parsed.ec != std::errc() || parsed.ptr != text.data() + text.size() || after < 0) {
      return ErrorResponse(
          InvalidArgument("'starting_after' is a sequence number.", "starting_after", "invalid_value"));
    }
    from = static_cast<uint64_t>(after) + 1;
  }
  // Found out now: an error is a status, never an event of the stream.
  const Status found = table.FindResponse(CallerOf(request), id);
  if (!found.ok()) return ErrorResponse(found);
  return StreamEvents(table, CallerOf(request), id, from);
}

Result<std::string> ListInput(const SessionTable& table, const HttpRequest& request, const std::string& id) {
  ASSIGN_OR_RETURN(const Paging paging, ReadPaging(request));
  ASSIGN_OR_RETURN(const SharedList<Item> items, table.GetInputItems(CallerOf(request), id));
  return PageOfItems(items, paging);
}

}  // namespace

void RegisterResponseRoutes(Router& router, SessionTable& table, const RetryAfter& retry_after_ms) {
  using Ids = Router::Parameters;
  const std::string all = "/v1/responses", one = all + "/{id}";
  router.Add("POST", all, [&table, retry_after_ms](const HttpRequest& r, const Ids&) {
    return CreateResponse(table, r, retry_after_ms);
  });
  // Before the pattern that would take these words for ids.
  router.Add("POST", all + "/input_tokens",
             [&table](const HttpRequest& r, const Ids&) { return CountInputTokens(table, r); });
  router.Add("POST", all + "/compact",
             [&table](const HttpRequest& r, const Ids&) { return CompactResponse(table, r); });
  router.Add("GET", one, [&table](const HttpRequest& r, const Ids& ids) {
    const std::string_view stream = r.Query("stream");
    return stream == "true" || stream == "1" ? Stream(table, r, ids[0]) : ResponseNow(table, CallerOf(r), ids[0]);
  });
  router.Add("DELETE", one, [&table](const HttpRequest& r, const Ids& ids) {
    const Status gone = table.DeleteResponse(CallerOf(r), ids[0]);
    if (!gone.ok()) return ErrorResponse(gone);
    JsonWriter json;
    json.BeginObject().Field("id", ids[0]).Field("object", "response.deleted").Field("deleted", true);
    return Json(json.EndObject().Take());
  });
  router.Add("POST", one + "/cancel", [&table](const HttpRequest& r, const Ids& ids) {
    const Status cancelled = table.Cancel(CallerOf(r), ids[0]);
    if (!cancelled.ok()) return ErrorResponse(cancelled);
    return AwaitEnd(table, CallerOf(r), ids[0], WhenFailed::kTellResponse);
  });
  router.AnswerWhileDraining("POST", one + "/cancel");
  router.Add("GET", one + "/input_items", [&table](const HttpRequest& r, const Ids& ids) {
    Result<std::string> list = ListInput(table, r, ids[0]);
    return list.ok() ? Json(std::move(*list)) : ErrorResponse(list.status());
  });
}

}  // namespace ringside
