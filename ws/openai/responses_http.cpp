// Responses over HTTP: what was answered, looked up, cancelled, forgotten. Answers are made over the WebSocket.
#include <atomic>
#include <charconv>

#include "ws/json/json_writer.h"
#include "ws/openai/responses.h"
#include "ws/openai/responses_fields.h"
#include "ws/openai/responses_objects.h"
#include "ws/openai/responses_outbox.h"
#include "ws/openai/responses_paging.h"
#include "ws/transport/http.h"

namespace ringside {
namespace {

Caller CallerOf(const HttpRequest& request) { return {request.principal, 0}; }

HttpResponse Json(std::string body) {
  HttpResponse response;
  response.body = std::move(body);
  return response;
}

HttpResponse Get(const SessionTable& table, const HttpRequest& request, const std::string& id) {
  const auto response = table.GetResponse(CallerOf(request), id);
  if (!response.ok()) return ErrorResponse(response.status());
  return Json(ResponseObject(**response, table.tokenizer(), table.options().model_name));
}

// A response's events as server-sent events, to the end of the response.
class StreamSink final : public EventSink {
 public:
  StreamSink(const SessionTable& table, std::shared_ptr<Outbox> outbox)
      : events_(EventWriter(table.tokenizer(), table.options().model_name, "", EventWriter::Framing::kServerSentEvents),
                std::move(outbox)) {}

  const EventNumbers& numbers() const override { return kResponsesNumbers; }
  void OnEvent(const TurnEvent& event) override {
    events_.Push(event);
    if (event.kind == TurnEvent::Kind::kEnded) Finish();
  }
  void OnReplay(const ResponseCopies& responses, uint64_t from) override {
    events_.PushReplay(responses, from);
    if (!responses.back()->running()) Finish();
  }
  /// The stream's end. Any thread; the first call counts.
  void Finish() {
    if (finished_.exchange(true)) return;
    events_.outbox().Push("data: [DONE]\n\n");
    events_.outbox().Close(Outbox::kEndOfBody, "");
  }
  uint64_t connection() const override { return UINT64_MAX; }

 private:
  EventOutbox events_;
  std::atomic<bool> finished_{false};
};

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
  HttpResponse response;
  response.content_type = "text/event-stream";
  response.stream = [&table, caller = CallerOf(request), id, from](std::shared_ptr<Outbox> outbox) {
    auto sink = std::make_shared<StreamSink>(table, outbox);
    if (!table.Replay(caller, id, from, sink).ok()) outbox->Close(1011, "the response was deleted", true);
    return sink;
  };
  return response;
}

Result<std::string> ListInput(const SessionTable& table, const HttpRequest& request, const std::string& id) {
  ASSIGN_OR_RETURN(const Paging paging, ReadPaging(request));
  ASSIGN_OR_RETURN(const SharedList<Item> items, table.GetInputItems(CallerOf(request), id));
  return PageOfItems(items, paging);
}

}  // namespace

void RegisterResponseRoutes(Router& router, SessionTable& table) {
  using Ids = Router::Parameters;
  const std::string all = "/v1/responses", one = all + "/{id}";
  router.Add("POST", "/v1/responses", [](const HttpRequest&, const Ids&) {
    return ErrorResponse(Unsupported("",
                                     "creating responses by POST; open a WebSocket on this path and send "
                                     "response.create"));
  });
  // Before the pattern that would take these words for ids.
  for (const std::string verb : {"input_tokens", "compact"}) {
    router.Add("POST", all + "/" + verb,
               [verb](const HttpRequest&, const Ids&) { return ErrorResponse(Unsupported("", "'" + verb + "'")); });
  }
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
