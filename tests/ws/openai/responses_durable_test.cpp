// The protocol on sessions with a journal: history positions, epochs, restarts, attaching at the upgrade.
#include <unistd.h>

#include <filesystem>

#include "session/journal/journal.h"
#include "tests/ws/openai/routes_fixture.h"

namespace ringside {
namespace {

using ::testing::ElementsAre;

class ResponsesDurableTest : public ::testing::Test {
 protected:
  ResponsesDurableTest()
      : folder_(std::filesystem::temp_directory_path() /
                ("ringside_wire_" + std::to_string(getpid()) + "_" +
                 ::testing::UnitTest::GetInstance()->current_test_info()->name())),
        chat_(std::move(ChatTemplate::Named("chatml").value())) {
    std::filesystem::remove_all(folder_);
    Restart();
  }
  ~ResponsesDurableTest() override {
    table.reset();
    journal_.reset();
    engines_.clear();
    std::filesystem::remove_all(folder_);
  }

  /// As after a crash: only the journal's content remains. Running turns are cut.
  void Restart() {
    if (table) table->Flush();
    table.reset();
    journal_.reset();
    engines_.push_back(std::make_unique<ScriptedEngine>());
    auto journal = Journal::Open({.path = folder_});
    ASSERT_TRUE(journal.ok()) << journal.status().ToString();
    journal_ = std::move(*journal);
    table =
        std::make_unique<SessionTable>(TableFixture::Options(), tokenizer_, chat_, engine(), journal_.get(), clock_);
    ASSERT_TRUE(table->Open().ok());
  }
  ScriptedEngine& engine() { return *engines_.back(); }
  std::string NewConversation() { return table->CreateSession({"me", 0}, {}, {}, {})->id; }
  /// The frames delivered by now.
  std::vector<Json> Frames(TestSocket& socket) {
    table->Flush();
    return socket.Frames();
  }
  /// Runs a whole turn of a conversation; returns its frames.
  std::vector<Json> Turn(TestSocket& socket, const std::string& id, const std::string& answer) {
    socket.Send(Json{{"type", "response.create"}, {"conversation", id}, {"input", "Hi"}});
    table->Flush();
    engine().AnswerLast(answer);
    return Frames(socket);
  }
  static Json Resume(const std::string& id, Json more = Json::object()) {
    Json event = {{"type", "ringside:session.resume"}, {"session", id}};
    event.update(more);
    return event;
  }
  static Json Known(const Json& ringside) { return {{"seq", ringside["seq"]}, {"chain", ringside["chain"]}}; }
  static HttpRequest Upgrade(std::vector<std::pair<std::string, std::string>> query, std::string principal = "me") {
    HttpRequest request;
    request.method = "GET";
    request.path = "/v1/responses";
    request.query = std::move(query);
    request.principal = std::move(principal);
    return request;
  }

  const std::string folder_;
  ManualClock clock_;
  ByteTokenizer tokenizer_;
  ChatTemplate chat_;
  std::vector<std::unique_ptr<ScriptedEngine>> engines_;  // a cut turn keeps its engine
  std::unique_ptr<Journal> journal_;
  std::unique_ptr<SessionTable> table;
};

TEST_F(ResponsesDurableTest, FinishedResponseReportsTheHistoryState) {
  const std::string id = NewConversation();
  TestSocket client(*table);
  const Json first = Turn(client, id, "Yo").back()["response"]["ringside"];
  const Json second = Turn(client, id, "Yes").back()["response"]["ringside"];
  EXPECT_GT(first["seq"], 0);
  EXPECT_GT(second["seq"], first["seq"]);
  EXPECT_EQ(first["chain"].get<std::string>().size(), 32U);
  EXPECT_NE(first["chain"], second["chain"]);
  client.Send(Resume(id, {{"known", Known(first)}}));
  const Json resumed = Frames(client).front();
  EXPECT_EQ(resumed["type"], "ringside:session.resumed");
  EXPECT_GE(resumed["position"]["seq"], second["seq"]);
  TestSocket other(*table);
  other.Send(Resume(id, {{"known", Known(resumed["position"])}}));
  EXPECT_EQ(Frames(other).front()["type"], "ringside:session.resumed");
}

TEST_F(ResponsesDurableTest, DivergedHistoryIsAFatalError) {
  const std::string id = NewConversation();
  TestSocket client(*table);
  const Json now = Known(Turn(client, id, "Yo").back()["response"]["ringside"]);
  Json other_chain = now, later = now;
  other_chain["chain"] = std::string(32, '0');
  later["seq"] = now["seq"].get<uint64_t>() + 1000;
  for (const Json& known : {other_chain, later}) {
    TestSocket lost(*table);
    lost.Send(Resume(id, {{"known", known}}));
    const std::vector<Json> frames = Frames(lost);
    ASSERT_EQ(frames.size(), 1U);
    EXPECT_EQ(frames[0]["type"], "ringside:session.failed");
    EXPECT_EQ(frames[0]["verb"], "resume");
    EXPECT_EQ(frames[0]["error"]["code"], "history_diverged");
    const auto close = lost.outbox->TakeClose();
    ASSERT_TRUE(close.has_value());
    EXPECT_EQ(close->code, 4412);
  }
}

TEST_F(ResponsesDurableTest, KnownHistoryHasAFixedFormat) {
  const std::string id = NewConversation();
  TestSocket client(*table);
  const std::string chain(32, 'a');
  const std::pair<Json, std::string> cases[] = {
      {5, "invalid_type"},
      {Json::object(), "missing_required_parameter"},
      {{{"seq", 1}}, "missing_required_parameter"},
      {{{"chain", chain}}, "missing_required_parameter"},
      {{{"seq", -1}, {"chain", chain}}, "invalid_value"},
      {{{"seq", 1}, {"chain", 5}}, "invalid_type"},
      {{{"seq", 1}, {"chain", chain.substr(1)}}, "invalid_value"},
      {{{"seq", 1}, {"chain", chain.substr(1) + "g"}}, "invalid_value"},
      {{{"seq", 1}, {"chain", "-" + chain.substr(1)}}, "invalid_value"},
  };
  for (const auto& [known, code] : cases) {
    client.Send(Resume(id, {{"known", known}}));
    const Json frame = client.Frame();
    EXPECT_EQ(frame["type"], "ringside:session.failed") << known;
    EXPECT_EQ(frame["error"]["code"], code) << known << frame;
  }
  EXPECT_FALSE(client.outbox->TakeClose());
  client.Send(Resume(id, {{"known", nullptr}}));
  EXPECT_EQ(Frames(client).front()["session_present"], true);
}

TEST_F(ResponsesDurableTest, RestartRecognisesARepeatedCreateByEveryField) {
  Json create = {{"type", "response.create"},
                 {"conversation", NewConversation()},
                 {"input", "Hi"},
                 {"metadata", {{"client_request_id", "r1"}}},
                 {"seed", 1},
                 {"stop", "X"}};
  std::vector<Json> told;
  {
    TestSocket client(*table);
    client.Send(create);
    table->Flush();
    engine().AnswerLast("Yo");
    told = Frames(client);
  }
  Restart();
  TestSocket again(*table);
  again.Send(create);
  EXPECT_EQ(Frames(again), told);
  EXPECT_EQ(engine().count(), 0U);
  for (const auto& [field, value] : {std::pair<std::string, Json>{"seed", 2}, {"stop", "Y"}}) {
    Json other = create;
    other[field] = value;
    const size_t before = engine().count();
    again.Send(other);
    table->Flush();
    ASSERT_EQ(engine().count(), before + 1) << field;
    engine().AnswerLast("No");
    EXPECT_EQ(Frames(again).back()["response"]["output"][0]["content"][0]["text"], "No");
  }
}

TEST_F(ResponsesDurableTest, EveryAttachmentRaisesTheEpochAndKeepsNumbers) {
  const std::string id = NewConversation();
  auto client = std::make_unique<TestSocket>(*table);
  const std::vector<Json> told = Turn(*client, id, "Yo");
  client->Send(Resume(id));
  const uint64_t first = Frames(*client).front()["epoch"];
  client.reset();
  Restart();
  for (const Json& epoch : {Json(first), Json(nullptr)}) {
    TestSocket again(*table);
    again.Send(Resume(id, {{"epoch", epoch}, {"after", 3}}));
    const std::vector<Json> frames = Frames(again);
    EXPECT_GT(frames.front()["epoch"], first);
    EXPECT_EQ(frames.front()["replay"], "events");
    EXPECT_EQ(std::vector<Json>(frames.begin() + 1, frames.end()), std::vector<Json>(told.begin() + 4, told.end()));
  }
}

TEST_F(ResponsesDurableTest, AnswerCutByARestartIsInterruptedAndContinues) {
  const std::string id = NewConversation();
  std::vector<Json> told;
  std::string response_id;
  {
    TestSocket client(*table);
    client.Send(Json{{"type", "response.create"}, {"conversation", id}, {"input", "Hi"}});
    table->Flush();
    engine().Start(0);
    engine().Say(0, "Hel");
    told = Frames(client);
    response_id = told[0]["response"]["id"];
    ASSERT_EQ(told.back()["delta"], "l");
  }
  Restart();
  TestSocket again(*table);
  again.Send(Resume(id, {{"after", told.back()["ringside"]["seq"]}}));
  const std::vector<Json> frames = Frames(again);
  ASSERT_EQ(frames.front()["replay"], "events");
  EXPECT_TRUE(frames.front()["active_response_id"].is_null());
  EXPECT_THAT(Types(std::vector<Json>(frames.begin() + 1, frames.end())),
              ElementsAre("response.output_text.done", "response.content_part.done", "response.output_item.done",
                          "response.incomplete"));
  const Json response = frames.back()["response"];
  EXPECT_EQ(response["id"], response_id);
  EXPECT_EQ(response["status"], "incomplete");
  EXPECT_EQ(response["incomplete_details"]["reason"], "interrupted");
  EXPECT_EQ(response["output"][0]["content"][0]["text"], "Hel");
  EXPECT_EQ(frames[1]["sequence_number"], told.back()["sequence_number"].get<int64_t>() + 1);
  // Over HTTP, by its id alone.
  Router router;
  RegisterResponseRoutes(router, *table);
  HttpRequest get;
  get.method = "GET";
  get.path = "/v1/responses/" + response_id;
  get.principal = "me";
  EXPECT_EQ(Json::parse(router.Route(get).body)["incomplete_details"]["reason"], "interrupted");
  get.query = {{"stream", "true"}, {"starting_after", "5"}};
  StreamedAnswer streamed(router.Route(get));
  const std::vector<Json> events = streamed.Events();
  EXPECT_EQ(events.front()["sequence_number"], 6);
  EXPECT_EQ(events.back(), frames.back());
  // An empty input continues it.
  again.Send(Json{{"type", "response.create"}, {"conversation", id}, {"input", Json::array()}});
  table->Flush();
  EXPECT_TRUE(tokenizer_.Decode(engine().last().tokens).ends_with("Hel"));
}

TEST_F(ResponsesDurableTest, DeletingASessionClosesAttachedSockets) {
  const std::string id = NewConversation();
  TestSocket attached(*table), other(*table);
  attached.Send(Resume(id));
  Frames(attached);
  other.Send(Json{{"type", "response.create"}, {"conversation", NewConversation()}, {"input", "Hi"}});
  ASSERT_TRUE(table->DeleteSession({"me", 0}, id).ok());
  Frames(attached);
  const auto close = attached.outbox->TakeClose();
  ASSERT_TRUE(close.has_value());
  EXPECT_EQ(close->code, 4410);
  Frames(other);
  EXPECT_FALSE(other.outbox->TakeClose());
}

TEST_F(ResponsesDurableTest, UpgradeMayAttachImmediately) {
  const std::string id = NewConversation();
  TestSocket client(*table);
  const std::vector<Json> told = Turn(client, id, "Yo");
  const Json position = told.back()["response"]["ringside"];
  const SocketRoute route = ResponsesRoute(*table);
  const auto attach = [&](std::vector<std::pair<std::string, std::string>> query) {
    const HttpRequest request = Upgrade(std::move(query));
    EXPECT_TRUE(route.admit(request).ok());
    auto outbox = std::make_shared<Outbox>([] {});
    const SocketFace face = route.open(request, outbox);
    if (face.on_opened) face.on_opened();
    table->Flush();
    std::vector<Json> frames;
    while (std::optional<std::string> text = outbox->Take()) frames.push_back(Json::parse(*text));
    return frames;
  };
  EXPECT_TRUE(attach({}).empty());
  std::vector<Json> frames = attach({{"session", id},
                                     {"after", "6"},
                                     {"seq", std::to_string(position["seq"].get<uint64_t>())},
                                     {"chain", position["chain"]}});
  ASSERT_FALSE(frames.empty());
  EXPECT_EQ(frames.front()["type"], "ringside:session.resumed");
  EXPECT_EQ(std::vector<Json>(frames.begin() + 1, frames.end()), std::vector<Json>(told.begin() + 7, told.end()));
  // A chain is addressed by the id of any of its responses.
  client.Send(Json{{"type", "response.create"}, {"input", "Hi"}});
  table->Flush();
  engine().AnswerLast("a");
  const std::string chained = Frames(client).back()["response"]["id"];
  EXPECT_EQ(attach({{"session", chained}}).front()["session_present"], true);
}

TEST_F(ResponsesDurableTest, RefusesAnUpgradeForAnUnknownSession) {
  const std::string id = NewConversation();
  const SocketRoute route = ResponsesRoute(*table);
  const Status unknown = route.admit(Upgrade({{"session", "conv_none"}}));
  EXPECT_EQ(MapStatus(unknown).http_status, 404);
  EXPECT_EQ(MapStatus(route.admit(Upgrade({{"session", id}}, "other"))).http_status, 404);
  EXPECT_EQ(MapStatus(route.admit(Upgrade({{"session", "resp_none"}}))).http_status, 404);
  for (const auto& [name, value] : std::vector<std::pair<std::string, std::string>>{
           {"after", "x"}, {"after", "-1"}, {"epoch", "1.5"}, {"seq", "1"}, {"chain", std::string(32, '0')}}) {
    const Status bad = route.admit(Upgrade({{"session", id}, {name, value}}));
    EXPECT_EQ(MapStatus(bad).http_status, 400) << name;
  }
  EXPECT_EQ(MapStatus(route.admit(Upgrade({{"session", id}, {"seq", "1"}, {"chain", "short"}}))).http_status, 400);
}

}  // namespace
}  // namespace ringside
