// Responses over HTTP: what was answered, looked up, cancelled, forgotten. Answers are made over the WebSocket.
#include <charconv>

#include "ws/http.h"
#include "ws/json_writer.h"
#include "ws/responses.h"
#include "ws/responses_events.h"
#include "ws/responses_fields.h"
#include "ws/responses_paging.h"

namespace ringside {
namespace {

Caller CallerOf(const HttpRequest& request) { return {request.principal, 0}; }

HttpResponse Json(std::string body) {
  HttpResponse response;
  response.body = std::move(body);
  return response;
}

HttpResponse Get(const SessionTable& table, const HttpRequest& request, const std::string& id) {
  std::string body;
  const Status found = table.ReadResponse(CallerOf(request), id, [&](const Response& response) {
    body = ResponseObject(response, table.tokenizer(), table.options().model_name);
  });
  return found.ok() ? Json(std::move(body)) : ErrorResponse(found);
}

// Collects a finished response's events as server-sent events.
class StreamSink final : public EventSink {
 public:
  StreamSink(const SessionTable& table, std::string* out)
      : writer_(table.tokenizer(), table.options().model_name, "", [out](const Frame& frame) {
          // The event's name is its type, the frame's first member: {"type":"response.created",...
          const std::string_view head = frame.head;
          const size_t begin = head.find(':') + 2;
          const std::string type(head.substr(begin, head.find('"', begin) - begin));
          if (type.starts_with("ringside:")) return;  // without a number, and stock readers compare numbers
          *out += "event: " + type + "\ndata: " + frame.head + frame.delta + frame.tail + "\n\n";
        }) {}
  void OnEvent(const TurnEvent& event) override { writer_.Write(event); }
  uint64_t connection() const override { return UINT64_MAX; }

 private:
  EventWriter writer_;
};

HttpResponse Stream(SessionTable& table, const HttpRequest& request, const std::string& id) {
  int64_t after = -1;
  if (const std::string_view text = request.Query("starting_after"); !text.empty()) {
    const auto parsed = std::from_chars(text.data(), text.data() + text.size(), after);
    if (parsed.ec != std::errc() || parsed.ptr != text.data() + text.size() || after < 0) {
      return ErrorResponse(
          InvalidArgument("'starting_after' is a sequence number.", "starting_after", "invalid_value"));
    }
  }
  bool running = false;
  const Status found =
      table.ReadResponse(CallerOf(request), id, [&](const Response& response) { running = response.running(); });
  if (!found.ok()) return ErrorResponse(found);
  if (running) {
    return ErrorResponse(Unsupported("stream",
                                     "streaming a running response over HTTP; resume its conversation on the "
                                     "WebSocket, or ask again when it has ended"));
  }
  HttpResponse response;
  response.content_type = "text/event-stream";
  const auto sink = std::make_shared<StreamSink>(table, &response.body);
  if (Status replayed = table.Replay(CallerOf(request), id, after, sink); !replayed.ok())
    return ErrorResponse(replayed);
  response.body += "data: [DONE]\n\n";
  return response;
}

Result<std::string> ListInput(const SessionTable& table, const HttpRequest& request, const std::string& id) {
  ASSIGN_OR_RETURN(const Paging paging, ReadPaging(request));
  ASSIGN_OR_RETURN(std::vector<Item> items, table.GetInputItems(CallerOf(request), id));
  return PageOfItems(std::move(items), paging);
}

}  // namespace

void RegisterResponseRoutes(Router& router, SessionTable& table) {
  using Ids = Router::Parameters;
  const std::string one = "/v1/responses/{id}";
  router.Add("POST", "/v1/responses", [](const HttpRequest&, const Ids&) {
    return ErrorResponse(Unsupported("",
                                     "creating responses by POST; open a WebSocket on this path and send "
                                     "response.create"));
  });
  router.Add("GET", one, [&table](const HttpRequest& r, const Ids& ids) {
    const std::string_view stream = r.Query("stream");
    return stream == "true" || stream == "1" ? Stream(table, r, ids[0]) : Get(table, r, ids[0]);
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
    return cancelled.ok() ? Get(table, r, ids[0]) : ErrorResponse(cancelled);
  });
  router.Add("GET", one + "/input_items", [&table](const HttpRequest& r, const Ids& ids) {
    Result<std::string> list = ListInput(table, r, ids[0]);
    return list.ok() ? Json(std::move(*list)) : ErrorResponse(list.status());
  });
}

}  // namespace ringside
