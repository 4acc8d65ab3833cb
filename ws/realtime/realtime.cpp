#include "ws/realtime/realtime.h"

#include "ws/fields/common_fields.h"
#include "ws/realtime/client_secrets.h"
#include "ws/realtime/realtime_socket.h"

namespace ringside {

namespace {

/// Query of an upgrade.
struct UpgradeQuery {
  std::string model, conversation;
};

Status ReadQueryModel(const JsonValue& value, const std::string& param, const FieldContext& context,
                      UpgradeQuery* query) {
  query->model = value.string();
  std::optional<std::string> adapter;
  return ReadModelName(query->model, param, context.options, &adapter);
}

const FieldTable<UpgradeQuery>& UpgradeTable() {
  static const FieldTable<UpgradeQuery> table(Join(Fields<UpgradeQuery>{{"model", FieldType::kString, ReadQueryModel},
                                                                        {"conversation", &UpgradeQuery::conversation}},
                                                   Fields<void>{{"call_id", Refuse{.what = "calls"}}}));
  return table;
}

}  // namespace

SocketRoute RealtimeRoute(SessionTable& table, RunOnWorker run) {
  SocketRoute route;
  route.admit = [&table](const HttpRequest& request) -> Status {
    const bool beta = request.Header("openai-beta").find("realtime") != std::string_view::npos ||
                      request.Header("sec-websocket-protocol").find("openai-beta.") != std::string_view::npos;
    if (beta) return Unsupported("OpenAI-Beta", "the beta of the Realtime protocol: leave out its header");
    IgnoredFields ignored(table.options().strict_requests);
    UpgradeQuery query;
    RETURN_IF_ERROR(UpgradeTable().ReadQuery(request, {table.options(), &ignored}, &query));
    const bool makes = query.conversation.empty();
    return makes ? Status::Ok() : table.GetSession(CallerOf(request), query.conversation).status();
  };
  route.open = [&table, run](const HttpRequest& request, std::shared_ptr<Outbox> outbox) {
    const auto face = std::make_shared<RealtimeSocket>(table, request.principal, std::move(outbox), run, request.trace);
    IgnoredFields ignored(table.options().strict_requests);
    UpgradeQuery query;
    (void)UpgradeTable().ReadQuery(request, {table.options(), &ignored}, &query);  // checked at admission
    return SocketFace{
        .on_opened = [face, query, session = request.session,
                      names = ignored.names()] { face->Open(query.conversation, query.model, session, names); },
        .on_message = [face](std::string_view message) { face->OnMessage(message); },
        .on_closed = [face] { face->OnClosed(); },
        .busy = [face] { return face->busy(); }};
  };
  return route;
}

std::vector<RequestKind> RealtimeRequestKinds() {
  std::vector<RequestKind> kinds = RealtimeEventKinds();
  kinds.push_back({"GET /v1/realtime (upgrade)", UpgradeTable().Describe()});
  kinds.push_back(ClientSecretKind());
  return kinds;
}

}  // namespace ringside
