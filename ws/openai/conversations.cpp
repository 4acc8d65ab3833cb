#include "ws/openai/conversations.h"

#include "base/limits.h"
#include "session/table/portable_session.h"
#include "ws/content/item_fields.h"
#include "ws/content/response_objects.h"
#include "ws/fields/common_fields.h"
#include "ws/fields/ignored_report.h"
#include "ws/json/json_writer.h"
#include "ws/openai/conversation_search.h"
#include "ws/openai/responses/responses_paging.h"

namespace ringside {
namespace {

constexpr size_t kMaxTurnsOfMemory = 256;  // limit of one response

/// Fields of all requests; each kind uses some.
struct ConversationRequest {
  Metadata metadata;
  WindowOverrides window;
  std::vector<NewItem> items;
  std::optional<std::string> previous_item_id;
};

Status ReadConversationMetadata(const JsonValue& value, const std::string& param, const FieldContext&,
                                ConversationRequest* request) {
  return ReadMetadata(value, param, &request->metadata);
}

Status ReadConversationItems(const JsonValue& value, const std::string& param, const FieldContext& context,
                             ConversationRequest* request) {
  return ReadItems(value, param, context.ignored, &request->items);
}

FieldTable<ConversationRequest> TableWith(const std::vector<std::string_view>& names) {
  const Fields<ConversationRequest> all = {
      {"metadata", FieldType::kObject, ReadConversationMetadata},
      {"items", FieldType::kArray, ReadConversationItems},
      {"ringside", &ConversationRequest::window, WindowTable()},
      {"previous_item_id", &ConversationRequest::previous_item_id},
  };
  return FieldTable<ConversationRequest>(Join(Only(all, names), ForeignFields()));
}

const FieldTable<ConversationRequest>& CreateTable() {
  static const FieldTable<ConversationRequest> table = TableWith({"metadata", "items", "ringside"});
  return table;
}
const FieldTable<ConversationRequest>& UpdateTable() {
  static const FieldTable<ConversationRequest> table = TableWith({"metadata"});
  return table;
}
const FieldTable<ConversationRequest>& ItemsTable() {
  static const FieldTable<ConversationRequest> table = TableWith({"items", "previous_item_id"});
  return table;
}
/// For requests without fields.
const FieldTable<ConversationRequest>& VerifyTable() {
  static const FieldTable<ConversationRequest> table = TableWith({});
  return table;
}

/// ERRORS: missing_required_parameter if the body lacks `required` ("" = none).
Result<ConversationRequest> ReadConversation(const FieldTable<ConversationRequest>& fields, std::string_view required,
                                             const SessionTable& table, const HttpRequest& request,
                                             IgnoredFields* ignored) {
  ASSIGN_OR_RETURN(const JsonValue body, ReadBody(request, /*may_be_empty=*/true));
  ConversationRequest out;
  RETURN_IF_ERROR(fields.Read(body, {table.options(), ignored}, &out));
  if (!required.empty() && body.Find(required) == nullptr) return MissingParameter(required);
  return out;
}

/// `ignored`: ignored fields of the request.
std::string ConversationObject(const SessionInfo& info, const std::vector<std::string>& ignored = {}) {
  JsonWriter json;
  json.BeginObject().Field("id", info.id).Field("object", "conversation");
  json.Field("created_at", static_cast<int64_t>(info.created_at)).Key("metadata").BeginObject();
  for (const auto& [key, value] : info.metadata) json.Field(key, value);
  json.EndObject().Key("ringside").BeginObject();
  json.Field("items", info.items).Field("tokens", info.tokens).Field("position", info.position);
  json.Field("pinned", info.pinned).Field("tokens_evicted", info.tokens_evicted);
  json.Field("memory_len", info.memory_len).Field("session_len", info.session_len);
  json.Field("eviction", info.eviction == Eviction::kTurn ? "turn" : "token");
  json.TextOrNull("adapter", info.adapter);
  if (!info.model.empty()) json.Field("model", info.model);
  json.TextOrNull("active_response_id", info.active_response_id);
  json.Field("updated_at", static_cast<int64_t>(info.updated_at)).Field("epoch", info.epoch);
  json.Field("cache", CacheSourceName(info.cache)).Field("durable", info.durable);
  json.TextOrNull("damaged", info.damage);
  if (info.instructions) json.Field("instructions", *info.instructions);
  WriteRecorded(json, info.recorded);
  WriteIgnored(json, ignored);
  return json.EndObject().EndObject().Take();
}

HttpResponse Answer(const Result<SessionInfo>& info, const std::vector<std::string>& ignored = {}) {
  return info.ok() ? JsonResponse(ConversationObject(*info, ignored)) : ErrorResponse(info.status());
}

Result<SessionInfo> Create(SessionTable& table, const HttpRequest& request, IgnoredFields* ignored) {
  ASSIGN_OR_RETURN(ConversationRequest asked, ReadConversation(CreateTable(), "", table, request, ignored));
  return table.CreateSession(CallerOf(request), std::move(asked.metadata), asked.window, std::move(asked.items));
}

Result<SessionInfo> Update(SessionTable& table, const HttpRequest& request, const std::string& id,
                           IgnoredFields* ignored) {
  ASSIGN_OR_RETURN(ConversationRequest asked, ReadConversation(UpdateTable(), "metadata", table, request, ignored));
  return table.SetMetadata(CallerOf(request), id, std::move(asked.metadata));
}

HttpResponse List(const SessionTable& table, const HttpRequest& request) {
  return AnsweredPage(table.options(), request, [&](const Paging& paging) -> Result<std::string> {
    if (paging.ascending) return Unsupported("order", "listing conversations from the oldest on");
    ASSIGN_OR_RETURN(const SessionPage page, table.ListSessions(CallerOf(request), paging.after, paging.limit));
    JsonWriter json;
    json.BeginObject().Field("object", "list").Key("data").BeginArray();
    for (const SessionInfo& info : page.sessions) json.Raw(ConversationObject(info));
    json.EndArray().Field("first_id", page.sessions.empty() ? "" : page.sessions.front().id);
    json.Field("last_id", page.sessions.empty() ? "" : page.sessions.back().id);
    return json.Field("has_more", page.has_more).EndObject().Take();
  });
}

HttpResponse ListItems(const SessionTable& table, const HttpRequest& request, const std::string& id) {
  return AnsweredPage(table.options(), request, [&](const Paging& paging) -> Result<std::string> {
    ASSIGN_OR_RETURN(const SharedList<Item> items, table.GetItems(CallerOf(request), id));
    return PageOfItems(items, paging);
  });
}

/// "root", or the id of an item, as in SessionTable::AddItems.
Status FindPlace(const SessionTable& table, const HttpRequest& request, const std::string& id, const std::string& named,
                 std::string* after) {
  const std::string param = "previous_item_id";
  if (named == "root") return Status::Ok();
  ASSIGN_OR_RETURN(const SharedList<Item> items, table.GetItems(CallerOf(request), id));
  for (const Item& item : items) {
    if (item.id != MessageOf(named)) continue;
    *after = item.id;
    if (ViewsOf(item).back().id == named) return Status::Ok();
    return Unsupported(param, "an item between an answer's message and its tool calls");
  }
  return NotFound("No item '" + named.substr(0, 256) + "' in this conversation.", param, "item_not_found");
}

Result<std::string> AddItems(SessionTable& table, const HttpRequest& request, const std::string& id,
                             IgnoredFields* ignored) {
  ASSIGN_OR_RETURN(ConversationRequest asked, ReadConversation(ItemsTable(), "items", table, request, ignored));
  std::vector<NewItem>& items = asked.items;
  std::optional<std::string> after;
  if (asked.previous_item_id) {
    RETURN_IF_ERROR(FindPlace(table, request, id, *asked.previous_item_id, &after.emplace()));
  }
  if (items.size() > static_cast<size_t>(limits::kMaxItemsAddedAtOnce)) {
    return InvalidArgument("At most " + std::to_string(limits::kMaxItemsAddedAtOnce) + " items are added at once.",
                           "items", "array_above_max_length");
  }
  ASSIGN_OR_RETURN(const std::vector<Item> added, table.AddItems(CallerOf(request), id, std::move(items), after));
  std::vector<ItemView> views;
  for (const Item& item : added) {
    for (ItemView& view : ViewsOf(item)) views.push_back(std::move(view));
  }
  return ItemList(views, false);
}

Result<std::string> GetItem(const SessionTable& table, const HttpRequest& request, const std::string& id,
                            const std::string& item_id) {
  ASSIGN_OR_RETURN(const SharedList<Item> items, table.GetItems(CallerOf(request), id));
  const std::string message = MessageOf(item_id);
  for (const Item& item : items) {
    if (item.id != message) continue;
    for (ItemView& view : ViewsOf(item)) {
      if (view.id == item_id) return std::move(view.json);
    }
  }
  return NotFound("No item '" + item_id + "' in this conversation.", "item_id", "item_not_found");
}

HttpResponse Answer(Result<std::string> body, const std::vector<std::string>& = {}) {
  return body.ok() ? JsonResponse(std::move(*body)) : ErrorResponse(body.status());
}

/// The response of `act` to the request, reporting its ignored fields.
template <class Act>
HttpResponse Answered(const SessionTable& table, const HttpRequest& request, const Act& act) {
  IgnoredFields ignored(table.options().strict_requests);
  auto done = act(&ignored);
  HttpResponse answer = Answer(std::move(done), ignored.names());
  return Reported(std::move(answer), table.options(), request, ignored.names());
}

HttpResponse Export(SessionTable& table, const HttpRequest& request, const std::string& id) {
  Result<std::string> bytes = table.ExportSession(CallerOf(request), id);
  if (!bytes.ok()) return ErrorResponse(bytes.status());
  HttpResponse response;
  response.body = std::move(*bytes);
  response.content_type = "application/octet-stream";
  response.headers.emplace_back("Content-Disposition", "attachment; filename=\"" + id + ".ringside\"");
  return response;
}

Result<std::string> Verify(SessionTable& table, const HttpRequest& request, const std::string& id,
                           IgnoredFields* ignored) {
  RETURN_IF_ERROR(ReadConversation(VerifyTable(), "", table, request, ignored).status());
  ASSIGN_OR_RETURN(const SessionVerdict verdict, table.VerifySession(id));
  JsonWriter json;
  json.BeginObject().Field("id", id).Field("object", "conversation.verdict").Field("ok", verdict.ok);
  json.Field("records", verdict.records).TextOrNull("message", verdict.message);
  return json.EndObject().Take();
}

// The window as a range of the timeline, its messages, and the source of each answer's context.
Result<std::string> Memory(const SessionTable& table, const HttpRequest& request, const std::string& id) {
  ASSIGN_OR_RETURN(const SessionInfo info, table.GetSession(CallerOf(request), id));
  ASSIGN_OR_RETURN(const SharedList<Item> items, table.GetItems(CallerOf(request), id));
  ASSIGN_OR_RETURN(const auto turns, table.ListResponses(CallerOf(request), id, kMaxTurnsOfMemory));
  const int64_t first_live = info.pinned + info.tokens_evicted;
  JsonWriter json;
  json.BeginObject().Field("id", id).Field("object", "conversation.memory");
  json.Field("memory_len", info.memory_len).Field("pinned", info.pinned).Field("first_live", first_live);
  json.Field("position", info.position).Field("cache", CacheSourceName(info.cache));
  json.Key("messages").BeginArray();
  for (const Item& item : items) {
    if (!item.rendered() || item.token_end <= first_live) continue;
    json.BeginObject().Field("id", item.id).Field("role", ChatRoleName(item.role));
    json.Field("begin", item.token_begin).Field("end", item.token_end).EndObject();
  }
  json.EndArray().Key("turns").BeginArray();
  for (const std::shared_ptr<const Response>& turn : turns) {
    if (turn->running() || turn->warm_up) continue;
    json.BeginObject().Field("response_id", turn->id).Field("item_id", turn->item_id);
    json.Field("status", ResponseStatusName(turn->status)).TextOrNull("incomplete_reason", IncompleteReason(*turn));
    json.Field("output_tokens", turn->output_tokens).Key("ringside");
    WriteReport(json, *turn);
    json.EndObject();
  }
  return json.EndArray().EndObject().Take();
}

}  // namespace

void RegisterConversationRoutes(Router& router, SessionTable& table) {
  using Ids = Router::Parameters;
  const std::string all = "/v1/conversations", one = all + "/{id}", items = one + "/items", item = items + "/{item}";
  router.Add("POST", all, [&table](const HttpRequest& r, const Ids&) {
    return Answered(table, r, [&](IgnoredFields* ignored) { return Create(table, r, ignored); });
  });
  router.Add("GET", all, [&table](const HttpRequest& r, const Ids&) { return List(table, r); });
  // Added before the pattern that would match "import" and "search" as ids.
  router.AllowBody(all + "/import", kMaxPortableBytes);
  router.Add(
      "POST", all + "/import",
      [&table](const HttpRequest& r, const Ids&) { return Answer(table.ImportSession(CallerOf(r), r.body)); },
      Scopes::Admin());
  AddSearchRoute(router, table);
  router.Add("GET", one,
             [&table](const HttpRequest& r, const Ids& ids) { return Answer(table.GetSession(CallerOf(r), ids[0])); });
  router.Add("POST", one, [&table](const HttpRequest& r, const Ids& ids) {
    return Answered(table, r, [&](IgnoredFields* ignored) { return Update(table, r, ids[0], ignored); });
  });
  router.Add("DELETE", one, [&table](const HttpRequest& r, const Ids& ids) {
    const Status gone = table.DeleteSession(CallerOf(r), ids[0]);
    if (!gone.ok()) return ErrorResponse(gone);
    JsonWriter json;
    json.BeginObject().Field("id", ids[0]).Field("object", "conversation.deleted").Field("deleted", true);
    return JsonResponse(json.EndObject().Take());
  });
  router.Add("GET", one + "/export",
             [&table](const HttpRequest& r, const Ids& ids) { return Export(table, r, ids[0]); });
  router.Add("GET", one + "/memory",
             [&table](const HttpRequest& r, const Ids& ids) { return Answer(Memory(table, r, ids[0])); });
  router.Add(
      "POST", one + "/verify",
      [&table](const HttpRequest& r, const Ids& ids) {
        return Answered(table, r, [&](IgnoredFields* ignored) { return Verify(table, r, ids[0], ignored); });
      },
      Scopes::Admin());
  router.Add("GET", items, [&table](const HttpRequest& r, const Ids& ids) { return ListItems(table, r, ids[0]); });
  router.Add("POST", items, [&table](const HttpRequest& r, const Ids& ids) {
    return Answered(table, r, [&](IgnoredFields* ignored) { return AddItems(table, r, ids[0], ignored); });
  });
  router.Add("GET", item,
             [&table](const HttpRequest& r, const Ids& ids) { return Answer(GetItem(table, r, ids[0], ids[1])); });
  router.Add("DELETE", item, [&table](const HttpRequest& r, const Ids& ids) {
    // A tool call is deleted with its answer, if the call exists.
    if (const std::string& id = ids[1]; MessageOf(id) != id) {
      if (const auto found = GetItem(table, r, ids[0], id); !found.ok()) return ErrorResponse(found.status());
    }
    const Status gone = table.DeleteItem(CallerOf(r), ids[0], MessageOf(ids[1]));
    return gone.ok() ? Answer(table.GetSession(CallerOf(r), ids[0])) : ErrorResponse(gone);
  });
}

std::vector<RequestKind> ConversationRequestKinds() {
  return {{"GET /v1/conversations", PagingFields()},
          {"POST /v1/conversations", CreateTable().Describe()},
          SearchRequestKind(),
          {"POST /v1/conversations/{id}", UpdateTable().Describe()},
          {"POST /v1/conversations/{id}/verify", VerifyTable().Describe()},
          {"GET /v1/conversations/{id}/items", PagingFields()},
          {"POST /v1/conversations/{id}/items", ItemsTable().Describe()}};
}

}  // namespace ringside
