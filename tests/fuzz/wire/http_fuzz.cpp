// HTTP requests after the transport: the target, authentication, the routes of conversations and responses, the
// answer's head. Input: requests, each with a line for method, target, host, origin, authorization and subprotocols,
// then the body; CONVERSATION is replaced by an existing id, SHARE by a link to it.
#include "tests/fuzz/fuzz_target.h"
#include "tests/session/scripted_engine.h"
#include "ws/json/json_value.h"
#include "ws/openai/conversations.h"
#include "ws/openai/owners.h"
#include "ws/openai/responses/responses.h"
#include "ws/openai/shares.h"
#include "ws/transport/auth.h"
#include "ws/transport/http/http_text.h"

namespace ringside {
namespace {

std::string TakeLine(std::string& text) {
  const size_t end = std::min(text.find('\n'), text.size());
  std::string line = text.substr(0, end);
  text.erase(0, end + 1);
  return line;
}

class Client : TableFixture {
 public:
  Client() : conversation_(table.CreateSession({"", 0}, {}, {}, {{ChatRole::kUser, "Hi"}})->id) {
    RegisterConversationRoutes(service_.router, table);
    RegisterResponseRoutes(service_.router, table);
    AddShareRoutes(service_, table);
    AddOwnerRoutes(service_.router, table);
    share_ = table.ShareSession({"", 0}, conversation_, 0)->token;
  }

  void Ask(std::string text) {
    for (size_t at = text.find("CONVERSATION"); at != std::string::npos; at = text.find("CONVERSATION")) {
      text.replace(at, std::string_view("CONVERSATION").size(), conversation_);
    }
    for (size_t at = text.find("SHARE"); at != std::string::npos; at = text.find("SHARE")) text.replace(at, 5, share_);
    HttpRequest request;
    request.method = TakeLine(text);
    const std::string target = TakeLine(text), host = TakeLine(text), origin = TakeLine(text);
    const std::string authorization = TakeLine(text), subprotocols = TakeLine(text);
    request.body = std::move(text);
    request.headers = {{"authorization", authorization}};
    const AccessRequest access{.host = host,
                               .origin = origin,
                               .authorization = authorization,
                               .subprotocols = subprotocols,
                               .has_origin = !origin.empty(),
                               .upgrade = request.method == "GET",
                               .ticket = origin};
    for (const AccessPolicy* policy : {&open_, &keyed_}) {
      (void)policy->CheckSource(access);
      const Result<Identity> identity = policy->Authenticate(access);
      Require(policy != &keyed_ || !identity.ok() || authorization.find("secret") != std::string::npos ||
                  subprotocols.find("secret") != std::string::npos,
              "nobody comes in without a key");
      (void)policy->IsForeignAllowed(origin, host);
    }
    (void)SelectSubprotocol(subprotocols);
    std::optional<HttpTarget> parsed = ParseTarget(target);
    if (!parsed) return;
    request.path = std::move(parsed->path);
    request.query = std::move(parsed->query);
    HttpResponse response = service_.router.Route(request);
    if (response.later != nullptr) {
      const std::vector<TurnRequest> turns = engine.requests();
      for (size_t i = 0; i < turns.size(); ++i) {
        if (turns[i].sink != nullptr) engine.Answer(i, "Yo");
      }
      response = response.later->Take()();
    }
    Require(response.status < 500, "what a client sends is no fault of the server: " + response.body);
    Require(response.status == 200 || ParseJson(response.body).ok(), "an error is JSON: " + response.body);
    const std::string head = WriteHead(response, {.request_id = "req_1"});
    Require(head.ends_with("\r\n\r\n") && head.find("\r\n\r\n") == head.size() - 4, "an answer has one head: " + head);
  }

 private:
  const std::string conversation_;
  TicketBox tickets_;
  const AccessPolicy open_{AccessOptions{}};
  const AccessPolicy keyed_{AccessOptions{.api_keys = {"secret"},
                                          .allowed_origins = {"https://friend.example:8443"},
                                          .host = "0.0.0.0",
                                          .allowed_hosts = {"friend.example"},
                                          .tickets = &tickets_}};
  Service service_;
  std::string share_;
};

}  // namespace

std::vector<std::string> Seeds() {
  const std::string who =
      "\nlocalhost:8080\nhttps://friend.example:8443\nBearer secret\nrealtime, openai-insecure-api-key.secret\n";
  const std::string item = R"({"type":"message","role":"user","content":[{"type":"input_text","text":"Hi"}]})";
  return {JoinParts({"POST\n/v1/conversations" + who + R"({"items":[)" + item + R"(],"metadata":{"k":"v"}})",
                     "GET\n/v1/conversations?limit=2&order=asc&after=CONVERSATION" + who,
                     "POST\n/v1/conversations/CONVERSATION" + who + R"({"metadata":{"k":null}})"}),
          JoinParts({"POST\n/v1/conversations/CONVERSATION/items" + who + R"({"items":[)" + item + "," + item + "]}",
                     "GET\nhttp://localhost/v1/conversations/CONVERSATION/items?order=desc&limit=1" + who,
                     "DELETE\n/v1/conversations/CONVERSATION/items/msg_x%20%41" + who,
                     "GET\n/v1/conversations/CONVERSATION/export" + who,
                     "GET\n/v1/conversations/CONVERSATION/verify" + who}),
          JoinParts({"POST\n/v1/conversations/CONVERSATION/shares" + who + R"({"expires_in":60})",
                     "GET\n/v1/conversations/CONVERSATION/shares" + who,
                     "DELETE\n/v1/conversations/CONVERSATION/shares/share_x" + who,
                     "GET\n/v1/shared?limit=1&order=asc\nlocalhost\n\nBearer SHARE\n\n",
                     "GET\n/v1/conversations/search?query=hI&limit=2&after=CONVERSATION" + who, "GET\n/v1/owners" + who,
                     "GET\n/v1/owners/conversations?owner=&after=CONVERSATION" + who}),
          JoinParts({"GET\n/v1/responses/resp_x?stream=true&starting_after=3" + who,
                     "POST\n/v1/responses/resp_x/cancel" + who, "GET\n/v1/responses/resp_x/input_items" + who,
                     "POST\n/v1/responses" + who + R"({"input":"Hi","conversation":"CONVERSATION","stream":true})",
                     "POST\n/v1/responses" + who + R"({"input":"Hi","store":false,"stream":false})",
                     "POST\n/v1/responses" + who + R"({"input":"Hi","background":true})",
                     "POST\n/v1/responses/input_tokens" + who + R"({"input":"Hi","conversation":"CONVERSATION"})",
                     "POST\n/v1/conversations/import" + who + "ringside session 2\n",
                     "DELETE\n/v1/conversations/CONVERSATION" + who})};
}

}  // namespace ringside

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ringside;
  Client client;
  for (const std::string_view request : SplitParts(data, size)) client.Ask(std::string(request));
  return 0;
}
