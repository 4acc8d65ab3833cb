// Keys, origins and host names: the rules alone, then over a real socket.
#include "tests/ws/transport/transport_fixture.h"
#include "ws/transport/auth.h"

namespace ringside::testing {
namespace {

AccessRequest FromHost(std::string_view host) {
  AccessRequest request;
  request.host = host;
  return request;
}

AccessRequest FromOrigin(std::string_view host, std::string_view origin) {
  AccessRequest request = FromHost(host);
  request.origin = origin;
  request.has_origin = true;
  return request;
}

TEST(TransportAuthRules, LoopbackHosts) {
  for (const char* host : {"localhost", "LocalHost:80", "127.0.0.1", "127.1.2.3:99", "::1", "[::1]:80"}) {
    EXPECT_TRUE(IsLoopbackHost(host)) << host;
  }
  for (const char* host : {"", "0.0.0.0", "::", "10.0.0.1", "localhost.example.org", "128.0.0.1", "127.0.0.1.nip.io"}) {
    EXPECT_FALSE(IsLoopbackHost(host)) << host;
  }
}

TEST(TransportAuthRules, LoopbackServerAcceptsOnlyItsNames) {
  const AccessPolicy policy({{}, {"https://chat.example.org"}, "127.0.0.1"});
  for (const char* host : {"localhost:8080", "127.0.0.1:8080", "[::1]:8080", "chat.example.org"}) {
    EXPECT_TRUE(policy.CheckSource(FromHost(host)).ok()) << host;
  }
  for (const char* host : {"evil.example.org", "evil.example.org:8080", "127.0.0.1.evil.example.org", ""}) {
    const Status status = policy.CheckSource(FromHost(host));
    EXPECT_EQ(status.reason(), "misdirected_request") << host;
  }
}

// Load balancers send no host, or any.
TEST(TransportAuthRules, HealthCheckAllowsAnyHostExceptFromABrowser) {
  for (const char* listening : {"127.0.0.1", "0.0.0.0"}) {
    const AccessPolicy policy({.api_keys = {"k"}, .host = listening});
    for (const char* host : {"", "evil.example.org", "node-7:8080", "ringside.default.svc"}) {
      AccessRequest probe = FromHost(host);
      probe.probe = true;
      EXPECT_TRUE(policy.CheckSource(probe).ok()) << host;
      for (const char* site : {"none", "same-origin", "same-site", "cross-site"}) {
        probe.fetch_site = site;
        EXPECT_EQ(policy.CheckSource(probe).reason(), "misdirected_request") << host << " " << site;
      }
      probe.fetch_site = "";
      probe.has_origin = true;
      probe.origin = "http://evil.example.org";
      EXPECT_EQ(policy.CheckSource(probe).reason(), "misdirected_request") << host;
    }
  }
}

TEST(TransportAuthRules, PublicServerAcceptsAddressesAndAllowedNamesOnly) {
  // DNS rebinding: evil.example.org may resolve to this server, but a literal address cannot be rebound.
  const AccessPolicy policy({.api_keys = {"k"}, .host = "0.0.0.0", .allowed_hosts = {"Chat.example.org"}});
  for (const char* host : {"10.0.0.1", "10.0.0.1:8080", "[fd00::1]:8080", "localhost", "chat.example.org:443"}) {
    EXPECT_TRUE(policy.CheckSource(FromHost(host)).ok()) << host;
  }
  for (const char* host : {"evil.example.org", "x.chat.example.org", "chat.example.org.evil", "10.0.0.1.nip.io", ""}) {
    EXPECT_EQ(policy.CheckSource(FromHost(host)).reason(), "misdirected_request") << host;
  }
  EXPECT_TRUE(AccessPolicy({.host = "0.0.0.0", .allowed_hosts = {"*"}}).CheckSource(FromHost("any.example.org")).ok());
}

TEST(TransportAuthRules, RefusesCrossSiteLoadsWithoutAnOrigin) {
  const AccessPolicy policy({});
  AccessRequest request = FromHost("127.0.0.1:80");
  request.fetch_site = "cross-site";
  request.fetch_mode = "no-cors";
  EXPECT_EQ(policy.CheckSource(request).reason(), "origin_not_allowed");
  request.fetch_mode = "navigate";
  EXPECT_TRUE(policy.CheckSource(request).ok()) << "a link that somebody follows";
  request.fetch_site = "same-origin";
  request.fetch_mode = "cors";
  EXPECT_TRUE(policy.CheckSource(request).ok());
}

TEST(TransportAuthRules, OriginMustBeOwnOrAllowed) {
  const AccessPolicy policy({{}, {"https://chat.example.org", "http://localhost:3000"}, "127.0.0.1"});
  EXPECT_TRUE(policy.CheckSource(FromHost("127.0.0.1:80")).ok());
  EXPECT_TRUE(policy.CheckSource(FromOrigin("127.0.0.1:80", "http://127.0.0.1:80")).ok());
  EXPECT_TRUE(policy.CheckSource(FromOrigin("127.0.0.1:80", "https://Chat.Example.org")).ok());
  EXPECT_TRUE(policy.CheckSource(FromOrigin("127.0.0.1:80", "http://localhost:3000")).ok());
  for (const char* origin : {"null", "", "http://127.0.0.1:81", "http://evil.example.org", "http://chat.example.org",
                             "https://chat.example.org.evil.example.org", "file://", "http://127.0.0.1:80.evil"}) {
    EXPECT_EQ(policy.CheckSource(FromOrigin("127.0.0.1:80", origin)).reason(), "origin_not_allowed") << origin;
  }
  EXPECT_TRUE(AccessPolicy({{}, {"*"}, "127.0.0.1"}).CheckSource(FromOrigin("127.0.0.1", "http://a.b")).ok());
}

TEST(TransportAuthRules, OriginMustHaveTheServersScheme) {
  const AccessPolicy plain({}), secure({.tls = true});
  EXPECT_TRUE(plain.CheckSource(FromOrigin("127.0.0.1:80", "http://127.0.0.1:80")).ok());
  EXPECT_EQ(plain.CheckSource(FromOrigin("127.0.0.1:80", "https://127.0.0.1:80")).reason(), "origin_not_allowed");
  EXPECT_TRUE(secure.CheckSource(FromOrigin("127.0.0.1:80", "https://127.0.0.1:80")).ok());
  EXPECT_EQ(secure.CheckSource(FromOrigin("127.0.0.1:80", "http://127.0.0.1:80")).reason(), "origin_not_allowed");
  // A proxy terminates TLS: the operator allows its origin.
  const AccessPolicy behind({.allowed_origins = {"https://chat.example.org"}});
  EXPECT_TRUE(behind.CheckSource(FromOrigin("chat.example.org", "https://chat.example.org")).ok());
  EXPECT_FALSE(behind.CheckSource(FromOrigin("localhost", "https://localhost")).ok());
}

TEST(TransportAuthRules, RefusesTwoDifferentKeys) {
  AccessRequest request;
  request.authorization = "Bearer a";
  request.api_key = "b";
  EXPECT_EQ(AccessPolicy({.api_keys = {"a", "b"}}).Authenticate(request).status().reason(), "conflicting_credentials");
  EXPECT_TRUE(AccessPolicy({}).Authenticate(request).ok()) << "keys mean nothing here";
  request.authorization = "Basic YTpi";
  EXPECT_EQ(AccessPolicy({.api_keys = {"b"}}).Authenticate(request).status().reason(), "conflicting_credentials");
  request.authorization = "Bearer ";
  EXPECT_TRUE(AccessPolicy({.api_keys = {"b"}}).Authenticate(request).ok()) << "none is shown there";
  request.authorization = "bearer  b ";
  EXPECT_TRUE(AccessPolicy({.api_keys = {"b"}}).Authenticate(request).ok()) << "twice the same";
}

TEST(TransportAuthRules, KeysMapToPrincipals) {
  const AccessPolicy open({{}, {}, "127.0.0.1"});
  EXPECT_EQ(open.Authenticate({})->principal, "");
  EXPECT_EQ(open.Authenticate({})->scopes, Scopes::All());

  const AccessPolicy policy({{"first-key", "second-key"}, {}, "127.0.0.1"});
  const auto with = [&](std::string_view header) {
    AccessRequest request;
    request.authorization = header;
    return policy.Authenticate(request);
  };
  const std::string first = with("Bearer first-key")->principal;
  EXPECT_EQ(first.size(), 32u);
  EXPECT_EQ(with("bearer   first-key ")->principal, first);
  EXPECT_NE(with("Bearer second-key")->principal, first);
  EXPECT_EQ(first.find("first"), std::string::npos);
  for (const char* header : {"", "Bearer", "Bearer ", "first-key", "Basic first-key", "Bearer first-ke",
                             "Bearer first-key2", "Bearer FIRST-KEY", "Bearer first-key,second-key"}) {
    EXPECT_EQ(with(header).status().reason(), "invalid_api_key") << header;
  }
}

TEST(TransportAuthRules, AcceptsAnthropicsKeyHeader) {
  const AccessPolicy policy({{"the-key"}, {}, "127.0.0.1"});
  AccessRequest request;
  request.api_key = "the-key";
  EXPECT_TRUE(policy.Authenticate(request).ok());
  request.authorization = "Bearer other";
  EXPECT_FALSE(policy.Authenticate(request).ok()) << "the usual header counts";
}

TEST(TransportAuthRules, TicketOpensOneSocketOnly) {
  TicketBox tickets;
  const AccessPolicy policy({.api_keys = {"the-key"}, .tickets = &tickets});
  const std::string ticket = tickets.Issue({"owner:alice", Scopes::All(), ""}, 60).value();
  AccessRequest request;
  request.ticket = ticket;
  EXPECT_FALSE(policy.Authenticate(request).ok()) << "not on a plain request";
  request.upgrade = true;
  EXPECT_EQ(policy.Authenticate(request)->principal, "owner:alice");
  EXPECT_FALSE(policy.Authenticate(request).ok()) << "not twice";
  request.ticket = "the-key";
  EXPECT_FALSE(policy.Authenticate(request).ok()) << "a key does not belong into a URL";
}

TEST(TransportAuthRules, AcceptsTheKeyAsASubprotocol) {
  const AccessPolicy policy({{"the-key"}, {}, "127.0.0.1"});
  AccessRequest request;
  request.subprotocols = "realtime, openai-insecure-api-key.the-key, openai-beta.realtime-v1";
  EXPECT_FALSE(policy.Authenticate(request).ok());  // not on a plain request
  request.upgrade = true;
  EXPECT_TRUE(policy.Authenticate(request).ok());
  request.subprotocols = "openai-insecure-api-key.other";
  EXPECT_FALSE(policy.Authenticate(request).ok());

  EXPECT_EQ(SelectSubprotocol("realtime, openai-insecure-api-key.k"), "realtime");
  EXPECT_EQ(SelectSubprotocol("openai-insecure-api-key.k,responses"), "responses");
  EXPECT_EQ(SelectSubprotocol("openai-insecure-api-key.k"), "openai-insecure-api-key.k");
  EXPECT_EQ(SelectSubprotocol("chat, superchat"), "");
  EXPECT_EQ(SelectSubprotocol(""), "");
}

class TransportAuthTest : public TransportTest {
 protected:
  void SetUp() override {
    options_.access.api_keys = {"key-one", "key-two"};
    options_.access.allowed_origins = {"https://chat.example.org"};
    Start();
  }
};

TEST_F(TransportAuthTest, EveryRouteExceptHealthRequiresAKey) {
  for (const char* path : {"/hello", "/who", "/nothing", "/ws"}) {
    for (const char* header : {"", "Authorization: Bearer wrong\r\n", "Authorization: Basic key-one\r\n"}) {
      WireClient client(port());
      const auto answer = client.Get(path, header);
      EXPECT_EQ(answer->status, 401) << path << " " << header;
      EXPECT_EQ(ErrorCode(answer->body), "invalid_api_key");
      EXPECT_EQ(answer->Header("www-authenticate"), "Bearer");
      EXPECT_EQ(WireClient(port()).Upgrade(path, header)->status, 401);
    }
  }
  EXPECT_EQ(WireClient(port()).Get("/healthz")->status, 200);
  ExpectAlive("Authorization: Bearer key-one\r\n");
}

TEST_F(TransportAuthTest, PrincipalIsTheSameOverHttpAndWebSocket) {
  WireClient http(port());
  const std::string principal = http.Get("/who", "Authorization: Bearer key-two\r\n")->body;
  WireClient header(port()), subprotocol(port());
  EXPECT_EQ(header.Upgrade("/ws", "Authorization: Bearer key-two\r\n")->status, 101);
  const auto answer = subprotocol.Upgrade("/ws", "Sec-WebSocket-Protocol: openai-insecure-api-key.key-two\r\n");
  EXPECT_EQ(answer->status, 101);
  EXPECT_EQ(answer->Header("sec-websocket-protocol"), "openai-insecure-api-key.key-two");
  WaitOutbox(1);
  std::lock_guard lock(seen_.mutex);
  EXPECT_EQ(seen_.principals, std::vector<std::string>({principal, principal}));
  EXPECT_NE(principal, "");
}

TEST_F(TransportAuthTest, RefusesAnUploadWithoutAKeyBeforeItsBody) {
  WireClient client(port());
  client.Send("POST /echo/x HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\n");
  EXPECT_EQ(client.ReadAnswer()->status, 401);
}

TEST_F(TransportAuthTest, ChecksOriginAndHostBeforeTheUpgrade) {
  const std::string key = "Authorization: Bearer key-one\r\n";
  EXPECT_EQ(WireClient(port()).Upgrade("/ws", key + "Origin: https://evil.example.org\r\n")->status, 403);
  EXPECT_EQ(WireClient(port()).Get("/hello", key + "Origin: null\r\n")->status, 403);
  EXPECT_EQ(WireClient(port()).Upgrade("/ws", key + "Origin: https://chat.example.org\r\n")->status, 101);
  WireClient rebound(port());
  rebound.Send("GET /hello HTTP/1.1\r\nHost: evil.example.org\r\n" + key + "\r\n");
  const auto answer = rebound.ReadAnswer();
  EXPECT_EQ(answer->status, 421);
  EXPECT_EQ(ErrorCode(answer->body), "misdirected_request");
}

TEST_F(TransportAuthTest, SendsCorsHeadersToAllowedOrigins) {
  WireClient client(port());
  const auto plain = client.Get("/healthz", "Origin: https://chat.example.org\r\n");
  EXPECT_EQ(plain->Header("access-control-allow-origin"), "https://chat.example.org");
  client.Send(
      "OPTIONS /hello HTTP/1.1\r\nHost: localhost\r\nOrigin: https://chat.example.org\r\n"
      "Access-Control-Request-Method: POST\r\n\r\n");
  const auto preflight = client.ReadAnswer();
  EXPECT_EQ(preflight->status, 204);
  EXPECT_NE(preflight->Header("access-control-allow-methods").find("POST"), std::string::npos);
  EXPECT_EQ(client.Get("/healthz")->Header("access-control-allow-origin"), "");
}

}  // namespace
}  // namespace ringside::testing
