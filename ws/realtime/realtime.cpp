#include "ws/realtime/realtime.h"

#include "ws/openai/responses_fields.h"
#include "ws/realtime/realtime_socket.h"

namespace ringside {

SocketRoute RealtimeRoute(SessionTable& table, RunOnWorker run) {
  SocketRoute route;
  route.admit = [&table](const HttpRequest& request) -> Status {
    const bool beta = request.Header("openai-beta").find("realtime") != std::string_view::npos ||
                      request.Header("sec-websocket-protocol").find("openai-beta.") != std::string_view::npos;
    if (beta) return Unsupported("OpenAI-Beta", "the beta of the Realtime protocol: leave out its header");
    if (!request.Query("call_id").empty()) return Unsupported("call_id", "calls");
    const std::string model(request.Query("model"));
    if (!model.empty() && model != table.options().model_name) {
      return NotFound("The model '" + model.substr(0, 256) + "' does not exist; this server has '" +
                          table.options().model_name + "'.",
                      "model", "model_not_found");
    }
    const std::string conversation(request.Query("conversation"));
    return conversation.empty() ? Status::Ok() : table.GetSession(CallerOf(request), conversation).status();
  };
  route.open = [&table, run](const HttpRequest& request, std::shared_ptr<Outbox> outbox) {
    const auto face = std::make_shared<RealtimeSocket>(table, request.principal, std::move(outbox), run, request.trace);
    return SocketFace{.on_opened = [face, id = std::string(request.Query("conversation")),
                                    session = request.session] { face->Open(id, session); },
                      .on_message = [face](std::string_view message) { face->OnMessage(message); },
                      .on_closed = [face] { face->OnClosed(); },
                      .busy = [face] { return face->busy(); }};
  };
  return route;
}

}  // namespace ringside
