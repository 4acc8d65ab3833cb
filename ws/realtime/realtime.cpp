#include "ws/realtime/realtime.h"

#include "ws/openai/responses/responses_fields.h"
#include "ws/realtime/realtime_socket.h"

namespace ringside {

SocketRoute RealtimeRoute(SessionTable& table, RunOnWorker run) {
  SocketRoute route;
  route.admit = [&table](const HttpRequest& request) -> Status {
    const bool beta = request.Header("openai-beta").find("realtime") != std::string_view::npos ||
                      request.Header("sec-websocket-protocol").find("openai-beta.") != std::string_view::npos;
    if (beta) return Unsupported("OpenAI-Beta", "the beta of the Realtime protocol: leave out its header");
    if (!request.Query("call_id").empty()) return Unsupported("call_id", "calls");
    std::optional<std::string> adapter;
    RETURN_IF_ERROR(ReadModelName(request.Query("model"), "model", table.options(), &adapter));
    const std::string conversation(request.Query("conversation"));
    return conversation.empty() ? Status::Ok() : table.GetSession(CallerOf(request), conversation).status();
  };
  route.open = [&table, run](const HttpRequest& request, std::shared_ptr<Outbox> outbox) {
    const auto face = std::make_shared<RealtimeSocket>(table, request.principal, std::move(outbox), run, request.trace);
    return SocketFace{.on_opened = [face, id = std::string(request.Query("conversation")),
                                    model = std::string(request.Query("model")),
                                    session = request.session] { face->Open(id, model, session); },
                      .on_message = [face](std::string_view message) { face->OnMessage(message); },
                      .on_closed = [face] { face->OnClosed(); },
                      .busy = [face] { return face->busy(); }};
  };
  return route;
}

}  // namespace ringside
