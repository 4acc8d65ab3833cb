// Responses over HTTP: what was answered, looked up, cancelled, forgotten. Answers are made over the WebSocket.
#include <atomic>
#include <charconv>

#include "ws/json/json_writer.h"
#include "ws/openai/responses.h"
#include "ws/openai/responses_events.h"
#include "ws/openai/responses_fields.h"
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
  std::string body;
  const Status found = table.ReadResponse(CallerOf(request), id, [&](const Response& response) {
    body = ResponseObject(response, table.tokenizer(), table.options().model_name);
  });
  return found.ok() ? Json(std::move(body)) : ErrorResponse(found);
}

// A response's events as server-sent events, to the end of the response.
class StreamSink final : public EventSink {
 public:
  StreamSink(const SessionTable& table, std::shared_ptr<Outbox> outbox)
      : outbox_(std::move(outbox)), writer_(table.tokenizer(), table.options().model_name, "", [this](Frame frame) {
          // The event's name is its type, the frame's first member: {"type":"response.created",...
          const std::string_view head = frame.head;
          const size_t begin = head.find(':') + 2;
          const std::string type(head.substr(begin, head.find('"', begin) - begin));
          if (type.starts_with("ringside:")) return;  // without a number, and stock readers compare numbers
          frame.head = "event: " + type + "\ndata: " + frame.head;
          frame.tail += "\n\n";
          outbox_->Push(std::move(frame));
        }) {}

  void OnEvent(const TurnEvent& event) override {
    WriteEvent(*outbox_, writer_, event);
    if (event.kind == TurnEvent::Kind::kEnd) Finish();
  }
  /// The stream's end. Any thread; the first call counts.
  void Finish() {
    if (finished_.exchange(true)) return;
    outbox_->Push("data: [DONE]\n\n");
    outbox_->Close(Outbox::kEndOfBody, "");
  }
  uint64_t connection() const override { return UINT64_MAX; }

 private:
  const std::shared_ptr<Outbox> outbox_;
  EventWriter writer_;
  std::atomic<bool> finished_{false};
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
  // Found out now: an error is a status, never an event of the stream.
  const Status found = table.ReadResponse(CallerOf(request), id, [](const Response&) {});
  if (!found.ok()) return ErrorResponse(found);
  HttpResponse response;
  response.content_type = "text/event-stream";
  response.stream = [&table, caller = CallerOf(request), id, after](std::shared_ptr<Outbox> outbox) {
    auto sink = std::make_shared<StreamSink>(table, outbox);
    bool running = false;
    Status status = table.Replay(caller, id, after, sink);
    if (status.ok()) {
      status = table.ReadResponse(caller, id, [&](const Response& response) { running = response.running(); });
    }
    if (!status.ok()) {
      outbox->Close(1011, "the response was deleted", true);
    } else if (!running) {
      sink->Finish();  // of a finished response with nothing behind `after`
    }
    return sink;
  };
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
