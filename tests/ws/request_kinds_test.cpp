// Every kind of request follows one policy for its fields: unknown fields are ignored and reported, null is absence,
// and a value of a wrong type meets the policy of its row in the face's table. The cases are generated from those
// tables.
#include "ws/request_kinds.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/ws/openai/responses_fixture.h"
#include "ws/chat/chat_routes.h"
#include "ws/openai/conversations.h"
#include "ws/openai/shares.h"
#include "ws/realtime/client_secrets.h"
#include "ws/realtime/realtime.h"

namespace ringside {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

const Json kMessages = Json::array({{{"role", "user"}, {"content", "Hi"}}});

/// A request of each kind that is accepted, or refused for a reason that its fields have no part in. CONVERSATION, ITEM
/// and RESPONSE are replaced by ids.
const std::map<std::string, Json>& Requests() {
  static const std::map<std::string, Json> requests = {
      {"response.create", {{"input", "Hi"}}},
      {"response.cancel", Json::object()},
      {"ringside:session.rewind", {{"session", "CONVERSATION"}, {"to", 0}}},
      {"ringside:session.compact", {{"session", "CONVERSATION"}}},
      {"ringside:session.fork", {{"session", "CONVERSATION"}}},
      {"ringside:session.resume", {{"session", "CONVERSATION"}}},
      {"GET /v1/responses (upgrade)", {{"session", "CONVERSATION"}}},
      {"POST /v1/responses", {{"input", "Hi"}}},
      {"POST /v1/responses/input_tokens", {{"input", "Hi"}}},
      {"GET /v1/responses/RESPONSE", Json::object()},
      {"POST /v1/responses/RESPONSE/cancel", Json::object()},
      {"GET /v1/responses/RESPONSE/input_items", Json::object()},
      {"GET /v1/conversations", Json::object()},
      {"POST /v1/conversations", Json::object()},
      {"GET /v1/conversations/search", {{"query", "x"}}},
      {"POST /v1/conversations/CONVERSATION/shares", Json::object()},
      {"POST /v1/conversations/CONVERSATION", {{"metadata", Json::object()}}},
      {"POST /v1/conversations/CONVERSATION/verify", Json::object()},
      {"GET /v1/conversations/CONVERSATION/items", Json::object()},
      {"POST /v1/conversations/CONVERSATION/items", {{"items", Json::array()}}},
      {"realtime response.create", {{"response", {{"conversation", "none"}, {"input", Json::array()}}}}},
      {"realtime session.update", {{"session", Json::object()}}},
      {"realtime conversation.item.create", {{"item", {{"role", "user"}, {"content", "Hi"}}}}},
      {"realtime conversation.item.delete", {{"item_id", "ITEM"}}},
      {"realtime conversation.item.retrieve", {{"item_id", "ITEM"}}},
      {"realtime response.cancel", Json::object()},
      {"GET /v1/realtime (upgrade)", Json::object()},
      {"POST /v1/realtime/client_secrets", Json::object()},
      {"POST /v1/chat/completions", {{"messages", kMessages}}},
      {"POST /v1/completions", {{"prompt", "a"}}},
      {"POST /v1/embeddings", {{"input", "a"}}},
      {"POST /tokenize", {{"prompt", "a"}}},
      {"POST /apply-template", {{"messages", kMessages}}},
      {"POST /detokenize", {{"tokens", {97}}}},
      {"POST /models/load", {{"model", "tiny"}}},
      {"POST /models/unload", {{"model", "tiny"}}},
      {"POST /v1/messages", {{"messages", kMessages}, {"max_tokens", 5}}},
      {"POST /v1/messages/count_tokens", {{"messages", kMessages}}},
      {"POST /api/chat", {{"messages", kMessages}}},
      {"POST /api/generate", {{"prompt", "a"}}},
      {"POST /api/pull", {{"model", "tiny"}}},
      {"POST /api/show", {{"model", "tiny"}}},
      {"POST /api/embed", {{"input", "a"}}},
      {"POST /api/embeddings", {{"prompt", "a"}}},
  };
  return requests;
}

/// Objects whose members need others beside them, by name.
Json ObjectNamed(const std::string& name) {
  if (name == "known") return {{"seq", 0}, {"chain", std::string(32, '0')}};
  if (name == "truncation") return {{"type", "retention_ratio"}, {"retention_ratio", 0.5}};
  return Json::object();
}

std::string LastOf(const std::string& path) { return path.substr(path.rfind('.') + 1); }

/// The object that holds the field `path` in `body`, which gets it if it lacks it.
Json& HolderOf(Json& body, const std::string& path) {
  Json* at = &body;
  for (size_t begin = 0, dot; (dot = path.find('.', begin)) != std::string::npos; begin = dot + 1) {
    const std::string name = path.substr(begin, dot - begin);
    if (!at->contains(name) || !(*at)[name].is_object()) (*at)[name] = ObjectNamed(name);
    at = &(*at)[name];
  }
  return *at;
}

Json With(Json body, const std::string& path, const Json& value) {
  HolderOf(body, path)[LastOf(path)] = value;
  return body;
}

Json Without(Json body, const std::string& path) {
  HolderOf(body, path).erase(LastOf(path));
  return body;
}

bool IsQuery(const std::string& kind) { return kind.starts_with("GET "); }

/// A value of a type that the field does not take; null where it takes any.
Json WrongValue(const FieldInfo& field, bool query) {
  if (query)
    return Takes(field.type, FieldType::kString) && field.policy == FieldPolicy::kRead ? Json() : Json("wrong");
  if (field.type == FieldType::kAny) return field.policy == FieldPolicy::kRead ? Json() : Json("wrong");
  const std::pair<FieldType, Json> values[] = {{FieldType::kString, "wrong"},
                                               {FieldType::kInteger | FieldType::kNumber, 5.5},
                                               {FieldType::kArray, Json::array({5})},
                                               {FieldType::kBool, true}};
  for (const auto& [type, value] : values) {
    if (!Takes(field.type, type)) return value;
  }
  return Json();
}

/// What became of a request.
struct Outcome {
  bool refused = false;
  std::string code, param;
  std::vector<std::string> ignored;  // reported names

  bool Names(const std::string& path) const {
    // Realtime's reports leave out the object of the event.
    return std::ranges::any_of(ignored, [&](const std::string& name) {
      return name == path || path == "session." + name || path == "response." + name;
    });
  }
};

class KindsFixture : protected TableFixture {
 public:
  explicit KindsFixture(bool strict) : TableFixture(Options(strict, this)) {
    const ChatService chat_service{
        .table = table, .retry_after_ms = nullptr, .run_on_worker = [](const std::string&, size_t, const auto& call) {
          call();
          return Status::Ok();
        }};
    RegisterConversationRoutes(service_.router, table);
    RegisterResponseRoutes(service_.router, table);
    AddShareRoutes(service_, table);
    RegisterChatRoutes(service_.router, chat_service, {});
    RegisterClientSecretRoutes(service_.router, tickets_, table.options());
    // For the whole test: what its requests name.
    TestSocket asks(table);
    asks.Send(Json{{"type", "response.create"}, {"input", "Hi"}});
    EndTurns();
    response_ = asks.Frames().back()["response"]["id"];
  }

  /// Sends a request of `kind`, as Requests() name it.
  Outcome Send(std::string kind, Json body) {
    NewItem item;
    item.text = "Hi";
    const std::string conversation = table.CreateSession({"me", 0}, {}, {}, {item})->id;
    const std::string item_id = table.GetItems({"me", 0}, conversation)->begin()->id;
    const std::pair<std::string, std::string> names[] = {
        {"CONVERSATION", conversation}, {"ITEM", item_id}, {"RESPONSE", response_}};
    std::string text = body.dump();
    for (const auto& [name, id] : names) {
      for (std::string* in : {&kind, &text}) {
        if (const size_t at = in->find(name); at != std::string::npos) in->replace(at, name.size(), id);
      }
    }
    body = Json::parse(text);
    ignored_.clear();
    Outcome outcome = kind.ends_with(" (upgrade)")          ? Upgrade(kind, body)
                      : kind.starts_with("realtime ")       ? SendRealtime(kind.substr(9), conversation, body)
                      : kind.find('/') != std::string::npos ? Call(kind, body)
                                                            : SendSocket(kind, body);
    EndTurns();
    outcome.ignored = ignored_;
    return outcome;
  }

 private:
  static SessionTableOptions Options(bool strict, KindsFixture* self) {
    SessionTableOptions options = TableFixture::Options();
    options.strict_requests = strict;
    options.embedding_size = 3;
    options.on_ignored = [self](const std::string&, const std::string& name) { self->ignored_.push_back(name); };
    return options;
  }
  static Outcome OfError(const Json& error) {
    Outcome outcome{.refused = true};
    const std::string message = error.is_string() ? error.get<std::string>() : error.value("message", "");
    const auto text = [&](const char* name) {
      return error.is_object() && error.contains(name) && error[name].is_string() ? error[name].get<std::string>() : "";
    };
    outcome.code = text("code");
    // Anthropic's and Ollama's errors name the field in the message.
    const bool named = error.is_object() && error.contains("param");
    outcome.param = named ? text("param") : message.substr(0, std::min(message.find(": "), message.size()));
    return outcome;
  }
  static void SetQuery(const Json& fields, HttpRequest* request) {
    for (const auto& [name, value] : fields.items()) {
      if (!value.is_null())
        request->query.emplace_back(name, value.is_string() ? value.get<std::string>() : value.dump());
    }
  }
  Outcome Call(const std::string& kind, const Json& body) {
    HttpRequest request;
    request.principal = "me";
    request.method = kind.substr(0, kind.find(' '));
    request.path = kind.substr(kind.find(' ') + 1);
    IsQuery(kind) ? SetQuery(body, &request) : (void)(request.body = body.dump());
    const HttpResponse answer = service_.router.Route(request);
    return answer.status < 400 ? Outcome() : OfError(Json::parse(answer.body)["error"]);
  }
  Outcome SendSocket(const std::string& type, Json event) {
    event["type"] = type;
    TestSocket socket(table);
    socket.Send(event);
    for (const Json& frame : socket.Frames()) {
      if (frame["type"] == "error" || frame["type"] == "ringside:session.failed") return OfError(frame["error"]);
    }
    return {};
  }
  Outcome SendRealtime(const std::string& type, const std::string& conversation, Json event) {
    event["type"] = type;
    HttpRequest request;
    request.principal = "me";
    request.query = {{"conversation", conversation}};
    const SocketRoute route = RealtimeRoute(table);
    const auto outbox = std::make_shared<Outbox>([] {});
    const SocketFace face = route.open(request, outbox);
    face.on_opened();
    face.on_message(event.dump());
    EndTurns();
    Outcome outcome;
    while (const std::optional<std::string> text = outbox->Take()) {
      const Json frame = Json::parse(*text);
      if (frame["type"] == "error") outcome = OfError(frame["error"]);
    }
    face.on_closed();
    return outcome;
  }
  Outcome Upgrade(const std::string& kind, const Json& query) {
    HttpRequest request;
    request.principal = "me";
    SetQuery(query, &request);
    const bool realtime = kind.find("realtime") != std::string::npos;
    const SocketRoute route = realtime ? RealtimeRoute(table) : ResponsesRoute(table);
    if (const Status refused = route.admit(request); !refused.ok()) {
      return {.refused = true, .code = refused.reason(), .param = refused.param()};
    }
    const SocketFace face = route.open(request, std::make_shared<Outbox>([] {}));
    if (face.on_opened) face.on_opened();
    face.on_closed();
    return {};
  }
  void EndTurns() {
    const std::vector<TurnRequest> turns = engine.requests();
    for (size_t i = 0; i < turns.size(); ++i) {
      if (turns[i].sink == nullptr) continue;
      turns[i].embedded ? engine.Embed(i, {1, 0, 0}) : engine.Answer(i, "Yo");
    }
  }

  Service service_;
  TicketBox tickets_;
  std::string response_;
  std::vector<std::string> ignored_;
};

/// The kinds of the tables, by the names of Requests().
std::vector<RequestKind> Kinds() {
  std::vector<RequestKind> kinds = AllRequestKinds();
  for (RequestKind& kind : kinds) {
    const size_t id = kind.name.find("{id}");
    if (id == std::string::npos) continue;
    kind.name.replace(id, 4, kind.name.find("/responses/") != std::string::npos ? "RESPONSE" : "CONVERSATION");
  }
  return kinds;
}

/// `type` selects the event.
bool IsTested(const RequestKind& kind, const FieldInfo& field) {
  return field.name != "type" || kind.name.find("POST ") == 0;
}

TEST(RequestKinds, EachHasARequestHere) {
  std::vector<std::string> names;
  for (const RequestKind& kind : Kinds()) names.push_back(kind.name);
  EXPECT_THAT(names, SizeIs(Requests().size()));
  for (const std::string& name : names) EXPECT_TRUE(Requests().contains(name)) << name;
}

TEST(RequestKinds, UnknownFieldsAreIgnoredAndReported) {
  for (const RequestKind& kind : Kinds()) {
    KindsFixture server(/*strict=*/false);
    const Json& body = Requests().at(kind.name);
    const Outcome usual = server.Send(kind.name, body);
    EXPECT_THAT(usual.ignored, IsEmpty()) << kind.name;
    const Outcome outcome = server.Send(kind.name, With(body, "colour", "red"));
    EXPECT_EQ(outcome.code, usual.code) << kind.name << ' ' << outcome.param;
    EXPECT_THAT(outcome.ignored, ElementsAre("colour")) << kind.name;
  }
}

TEST(RequestKinds, UnknownMembersAreIgnoredAndReported) {
  for (const RequestKind& kind : Kinds()) {
    KindsFixture server(/*strict=*/false);
    const Json& body = Requests().at(kind.name);
    std::set<std::string> objects;
    for (const FieldInfo& field : kind.fields) {
      if (const size_t dot = field.name.rfind('.'); dot != std::string::npos) objects.insert(field.name.substr(0, dot));
    }
    for (const std::string& object : objects) {
      const std::string member = object + ".colour";
      const Outcome usual = server.Send(kind.name, Without(body, member));
      const Outcome outcome = server.Send(kind.name, With(body, member, "red"));
      EXPECT_EQ(outcome.code, usual.code) << kind.name << ' ' << object << ' ' << outcome.param;
      EXPECT_TRUE(outcome.Names(member)) << kind.name << ' ' << object;
    }
  }
}

TEST(RequestKinds, UnknownFieldsAreRefusedWhereRequestsAreStrict) {
  for (const RequestKind& kind : Kinds()) {
    KindsFixture server(/*strict=*/true);
    const Outcome outcome = server.Send(kind.name, With(Requests().at(kind.name), "colour", "red"));
    EXPECT_TRUE(outcome.refused) << kind.name;
    EXPECT_EQ(outcome.param, "colour") << kind.name;
    EXPECT_TRUE(outcome.code.empty() || outcome.code == "unknown_parameter") << kind.name << ' ' << outcome.code;
    EXPECT_THAT(outcome.ignored, IsEmpty()) << kind.name;
  }
}

TEST(RequestKinds, NullIsAbsence) {
  for (const bool strict : {false, true}) {
    for (const RequestKind& kind : Kinds()) {
      KindsFixture server(strict);
      const Json& body = Requests().at(kind.name);
      for (const FieldInfo& field : kind.fields) {
        if (!IsTested(kind, field)) continue;
        const Outcome outcome = server.Send(kind.name, With(body, field.name, nullptr));
        const Outcome absent = server.Send(kind.name, Without(body, field.name));
        EXPECT_EQ(outcome.refused, absent.refused) << kind.name << ' ' << field.name << ' ' << outcome.param;
        EXPECT_EQ(outcome.code, absent.code) << kind.name << ' ' << field.name;
        EXPECT_EQ(outcome.ignored, absent.ignored) << kind.name << ' ' << field.name;
      }
    }
  }
}

/// Checks the outcome of a value that `field` does not take.
void ExpectPolicy(const RequestKind& kind, const FieldInfo& field, bool strict, const Outcome& usual,
                  const Outcome& outcome) {
  const bool reported = field.policy == FieldPolicy::kLenient || field.policy == FieldPolicy::kHint;
  const bool silent = field.policy == FieldPolicy::kSilent;
  const std::string what =
      kind.name + ' ' + field.name + (strict ? ", strict: " : ": ") + outcome.code + ' ' + outcome.param;
  if (silent || (reported && !strict)) {
    EXPECT_EQ(outcome.code, usual.code) << what;
    EXPECT_EQ(outcome.refused, usual.refused) << what;
    EXPECT_EQ(outcome.Names(field.name), reported) << what;
    return;
  }
  EXPECT_TRUE(outcome.refused) << what;
  EXPECT_TRUE(outcome.param.starts_with(field.name)) << what;
  EXPECT_FALSE(outcome.Names(field.name)) << what;
}

TEST(RequestKinds, AValueOfAWrongTypeIsTreatedAsItsPolicySays) {
  for (const bool strict : {false, true}) {
    for (const RequestKind& kind : Kinds()) {
      KindsFixture server(strict);
      const Json& body = Requests().at(kind.name);
      for (const FieldInfo& field : kind.fields) {
        const Json wrong = WrongValue(field, IsQuery(kind.name));
        if (!IsTested(kind, field) || wrong.is_null()) continue;
        const Outcome usual = server.Send(kind.name, Without(body, field.name));
        ExpectPolicy(kind, field, strict, usual, server.Send(kind.name, With(body, field.name, wrong)));
      }
    }
  }
}

TEST(RequestKinds, TheReferenceHasALineForEachField) {
  const std::string text = DescribeRequests();
  EXPECT_NE(text.find("POST /v1/chat/completions\ttop_logprobs\tinteger\tread\t0 to 20\t\n"), std::string::npos);
  EXPECT_NE(
      text.find("POST /v1/chat/completions\tmax_completion_tokens\tinteger\tclamp\tat least 1, or -1\tmax_tokens\n"),
      std::string::npos);
  EXPECT_NE(text.find("ringside:session.resume\tknown.seq\tinteger\tread\tat least 0\t\n"), std::string::npos);
}

}  // namespace
}  // namespace ringside
