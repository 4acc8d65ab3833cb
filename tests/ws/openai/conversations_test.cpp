// Conversations and responses over HTTP, through the router.
#include "session/table/portable_session.h"
#include "tests/ws/openai/routes_fixture.h"

namespace ringside {
namespace {

TEST_F(RoutesTest, PathWordsAreNeverIds) {
  Fails(Call("POST", "/v1/responses/compact", Json::object()), 400, "missing_required_parameter", "input");
  for (const char* path : {"/v1/responses/input_tokens", "/v1/responses/compact"}) {
    Fails(Call("GET", path), 405, "method_not_allowed", nullptr);
    Fails(Call("DELETE", path), 405, "method_not_allowed", nullptr);
  }
  Fails(Call("GET", "/v1/conversations/import"), 405, "method_not_allowed", nullptr);
}

using ::testing::ElementsAre;
using ::testing::SizeIs;

using ConversationsTest = RoutesTest;

TEST_F(ConversationsTest, CreateGetUpdateDelete) {
  clock.AdvanceMs(5000);
  const Json made = Ok(Call("POST", "/v1/conversations", {{"metadata", {{"topic", "x"}}}}));
  const std::string id = made["id"];
  EXPECT_EQ(id.substr(0, 5), "conv_");
  EXPECT_EQ(made["object"], "conversation");
  EXPECT_EQ(made["created_at"], 5);
  EXPECT_EQ(made["metadata"]["topic"], "x");
  EXPECT_EQ(made["ringside"]["items"], 0);
  EXPECT_EQ(Ok(Call("GET", "/v1/conversations/" + id)), made);
  EXPECT_EQ(Ok(Call("POST", "/v1/conversations/" + id, {{"metadata", {{"topic", "y"}}}}))["metadata"],
            (Json{{"topic", "y"}}));
  EXPECT_EQ(Ok(Call("DELETE", "/v1/conversations/" + id)),
            (Json{{"id", id}, {"object", "conversation.deleted"}, {"deleted", true}}));
  Fails(Call("GET", "/v1/conversations/" + id), 404, "conversation_not_found", "conversation");
}

TEST_F(ConversationsTest, EmptyBodyCreatesAConversation) {
  Ok(Call("POST", "/v1/conversations"));
  Ok(Call("POST", "/v1/conversations", Json::object()));
  Ok(Call("POST", "/v1/conversations", {{"items", nullptr}, {"metadata", nullptr}}));
}

TEST_F(ConversationsTest, WindowIsConfigurable) {
  const Json made = Ok(Call("POST", "/v1/conversations",
                            {{"ringside", {{"memory_len", 100}, {"session_len", 900}, {"eviction", "token"}}}}));
  EXPECT_EQ(made["ringside"]["memory_len"], 100);
  EXPECT_EQ(made["ringside"]["session_len"], 900);
  EXPECT_EQ(made["ringside"]["eviction"], "token");
  Fails(Call("POST", "/v1/conversations", {{"ringside", {{"memory_len", 9999}}}}), 400, "invalid_value",
        "ringside.memory_len");
  Fails(Call("POST", "/v1/conversations", {{"ringside", {{"eviction", "lru"}}}}), 400, "invalid_value",
        "ringside.eviction");
}

TEST_F(ConversationsTest, PageOfLargeItemsIsShortened) {
  const std::string id = Ok(Call("POST", "/v1/conversations"))["id"], items = "/v1/conversations/" + id + "/items";
  constexpr size_t kItemBytes = 3 << 19;
  for (int i = 0; i < 5; ++i) {
    const Json item = {{"role", "user"}, {"content", std::string(kItemBytes, 'x')}};
    Ok(Call("POST", items, {{"items", Json::array({item})}}));
  }
  const Json first = Ok(Call("GET", items + "?order=asc&limit=100"));
  EXPECT_THAT(first["data"], SizeIs(3));
  EXPECT_EQ(first["has_more"], true);
  const Json rest = Ok(Call("GET", items + "?order=asc&limit=100&after=" + first["last_id"].get<std::string>()));
  EXPECT_THAT(rest["data"], SizeIs(2));
  EXPECT_EQ(rest["has_more"], false);
}

TEST_F(ConversationsTest, BadBodyErrorsNameTheField) {
  Fails(Call("POST", "/v1/conversations", "{"), 400, "invalid_json", nullptr);
  Fails(Call("POST", "/v1/conversations", "[]"), 400, "invalid_type", "body");
  const HttpResponse named = Call("POST", "/v1/conversations", {{"name", "x"}, {"ringside", {{"window", 1}}}});
  EXPECT_EQ(Ok(named)["ringside"]["ignored"], Json::array({"name", "ringside.window"}));
  Fails(Call("POST", "/v1/conversations", {{"metadata", {{"a", 1}}}}), 400, "invalid_type", "metadata.a");
  Fails(Call("POST", "/v1/conversations", {{"items", 5}}), 400, "invalid_type", "items");
  Fails(Call("POST", "/v1/conversations", {{"items", {{{"role", "user"}}}}}), 400, "missing_required_parameter",
        "items[0].content");
  const std::string one = "/v1/conversations/" + NewConversation();
  Fails(Call("POST", one, Json::object()), 400, "missing_required_parameter", "metadata");
  Fails(Call("POST", one, {{"metadata", 5}}), 400, "invalid_type", "metadata");
  Fails(Call("POST", one + "/items", Json::object()), 400, "missing_required_parameter", "items");
  Fails(Call("POST", one + "/items", {{"items", Json(std::vector<Json>(21, Message("user", "x")))}}), 400,
        "array_above_max_length", "items");
  Fails(Call("GET", one + "/items?limit=0"), 400, "invalid_value", "limit");
  Fails(Call("GET", one + "/items?limit=x"), 400, "invalid_value", "limit");
  Fails(Call("GET", one + "/items?order=up"), 400, "invalid_value", "order");
  Fails(Call("GET", one + "/items?after=msg_x"), 404, "item_not_found", "after");
  Fails(Call("GET", one + "/items/msg_x"), 404, "item_not_found", "item_id");
}

TEST_F(ConversationsTest, ListsTheOwnersConversationsNewestFirst) {
  std::vector<std::string> ids;
  for (int i = 0; i < 3; ++i) ids.push_back(NewConversation());
  Json page = Ok(Call("GET", "/v1/conversations?limit=2"));
  EXPECT_EQ(page["object"], "list");
  EXPECT_EQ(page["first_id"], ids[2]);
  EXPECT_EQ(page["last_id"], ids[1]);
  EXPECT_EQ(page["has_more"], true);
  page = Ok(Call("GET", "/v1/conversations?limit=2&after=" + ids[1]));
  EXPECT_THAT(page["data"], SizeIs(1));
  EXPECT_EQ(page["has_more"], false);
  EXPECT_EQ(
      Ok(Call("GET", "/v1/conversations", nullptr, "other")),
      (Json{{"object", "list"}, {"data", Json::array()}, {"first_id", ""}, {"last_id", ""}, {"has_more", false}}));
}

TEST_F(ConversationsTest, ListsItemsInBothOrdersByPage) {
  const Json made = Ok(Call("POST", "/v1/conversations", {{"items", {Message("system", "S"), Message("user", "U")}}}));
  const std::string items = "/v1/conversations/" + made["id"].get<std::string>() + "/items";
  const Json added = Ok(Call("POST", items, {{"items", {Message("assistant", "A")}}}));
  EXPECT_THAT(added["data"], SizeIs(1));
  EXPECT_EQ(added["has_more"], false);
  const auto texts = [](const Json& list) {
    std::string all;
    for (const Json& item : list["data"]) all += item["content"][0]["text"];
    return all;
  };
  const Json newest = Ok(Call("GET", items));
  EXPECT_EQ(texts(newest), "AUS");
  EXPECT_EQ(newest["data"][0]["content"][0]["type"], "output_text");
  EXPECT_EQ(newest["data"][1]["content"][0]["type"], "input_text");
  EXPECT_EQ(newest["data"][1]["status"], "completed");
  EXPECT_EQ(texts(Ok(Call("GET", items + "?order=asc"))), "SUA");
  const Json first = Ok(Call("GET", items + "?order=asc&limit=2"));
  EXPECT_EQ(first["has_more"], true);
  const Json rest = Ok(Call("GET", items + "?order=asc&limit=2&after=" + first["last_id"].get<std::string>()));
  EXPECT_EQ(texts(rest), "A");
  EXPECT_EQ(rest["has_more"], false);
  const std::string last = newest["data"][0]["id"];
  EXPECT_EQ(Ok(Call("GET", items + "/" + last)), newest["data"][0]);
}

TEST_F(ConversationsTest, JoinsTextPartsWithANewline) {
  const auto part = [](const char* text) { return Json{{"type", "input_text"}, {"text", text}}; };
  const Json message = {{"role", "user"}, {"content", {part("one"), part("two")}}};
  const Json made = Ok(Call("POST", "/v1/conversations", {{"items", {message}}}));
  const std::string items = "/v1/conversations/" + made["id"].get<std::string>() + "/items";
  const Json added = Ok(Call("POST", items, {{"items", {message}}}));
  EXPECT_EQ(added["data"][0]["content"], Json::array({part("one\ntwo")}));
  const Json all = Ok(Call("GET", items));
  for (const Json& item : all["data"]) EXPECT_EQ(item["content"][0]["text"], "one\ntwo");
}

TEST_F(ConversationsTest, DeletesAndInsertsItemsAnywhere) {
  const std::string id = NewConversation();
  client.Send(Create({{"conversation", id}}));
  engine.Answer(0, "Yo");
  const std::string items = "/v1/conversations/" + id + "/items";
  const Json list = Ok(Call("GET", items));
  const std::string answer = list["data"][0]["id"], question = list["data"][1]["id"];
  const auto add = [&](const Json& behind) {
    return Call("POST", items, {{"items", {{{"role", "user"}, {"content", "x"}}}}, {"previous_item_id", behind}});
  };
  Ok(add("root"));
  const std::string added = Ok(add(question))["data"][0]["id"];
  Fails(add("msg_x"), 404, "item_not_found", "previous_item_id");
  Fails(add(5), 400, "invalid_type", "previous_item_id");
  const Json all = Ok(Call("GET", items + "?order=asc"))["data"];
  ASSERT_THAT(all, SizeIs(4));
  EXPECT_EQ(all[2]["id"], added);
  EXPECT_EQ(Ok(Call("DELETE", items + "/" + question))["ringside"]["items"], 3);
  EXPECT_EQ(Ok(Call("DELETE", items + "/" + answer))["ringside"]["items"], 2);
  Fails(Call("DELETE", items + "/" + answer), 404, "item_not_found", "item_id");
  client.Send(Create({{"conversation", id}}));
  Fails(Call("DELETE", items + "/" + added), 409, "conversation_locked", "conversation");
  engine.Answer(1, "Yo");
}

TEST_F(ConversationsTest, MemoryReportsWindowMessagesAndCacheHits) {
  const std::string id = NewConversation(), path = "/v1/conversations/" + id + "/memory";
  Json memory = Ok(Call("GET", path));
  EXPECT_EQ(memory["object"], "conversation.memory");
  EXPECT_EQ(memory["position"], 0);
  EXPECT_THAT(memory["messages"], SizeIs(0));
  EXPECT_THAT(memory["turns"], SizeIs(0));
  client.Send(Create({{"conversation", id}}));
  EXPECT_THAT(Ok(Call("GET", path))["turns"], SizeIs(0)) << "it runs";
  engine.Answer(0, "Yo");
  client.Send(Create({{"conversation", id}, {"input", "More"}}));
  engine.Answer(1, "a");
  memory = Ok(Call("GET", path));
  const Json info = Ok(Call("GET", "/v1/conversations/" + id))["ringside"];
  for (const char* field : {"memory_len", "pinned", "position", "cache"})
    EXPECT_EQ(memory[field], info[field]) << field;
  EXPECT_EQ(memory["first_live"], info["pinned"].get<int64_t>() + info["tokens_evicted"].get<int64_t>());
  ASSERT_THAT(memory["messages"], SizeIs(4));
  int64_t end = 0;
  for (const Json& message : memory["messages"]) {
    EXPECT_GE(message["begin"], end);
    end = message["end"];
    EXPECT_GT(end, message["begin"].get<int64_t>());
  }
  ASSERT_THAT(memory["turns"], SizeIs(2));
  EXPECT_EQ(memory["turns"][1]["item_id"], memory["messages"][3]["id"]);
  EXPECT_EQ(memory["turns"][1]["status"], "completed");
  EXPECT_EQ(memory["turns"][1]["incomplete_reason"], nullptr);
  EXPECT_EQ(memory["turns"][1]["ringside"]["source"], "slot");
  EXPECT_GT(memory["turns"][1]["ringside"]["tokens_reused"], 0);
  client.Send(Create({{"conversation", id}, {"input", "Long"}}));
  engine.Answer(2, "b", FinishReason::kLength);
  EXPECT_EQ(Ok(Call("GET", path))["turns"][2]["incomplete_reason"], "max_output_tokens");
  Fails(Call("GET", path, nullptr, "other"), 404, "conversation_not_found", "conversation");
}

TEST_F(ConversationsTest, BusyConversationReturns409) {
  const std::string id = NewConversation();
  client.Send(Create({{"conversation", id}}));
  Fails(Call("POST", "/v1/conversations/" + id + "/items", {{"items", {Message("user", "x")}}}), 409,
        "conversation_locked", "conversation");
  EXPECT_TRUE(Ok(Call("GET", "/v1/conversations/" + id))["ringside"]["active_response_id"].is_string());
}

TEST_F(ConversationsTest, ExportAndImportRoundTrip) {
  const std::string id = NewConversation();
  client.Send(Create({{"conversation", id}}));
  engine.Answer(0, "Yo");
  const std::string one = "/v1/conversations/" + id;
  const HttpResponse exported = Call("GET", one + "/export");
  EXPECT_EQ(exported.status, 200);
  EXPECT_EQ(exported.content_type, "application/octet-stream");
  const Json imported = Ok(Call("POST", "/v1/conversations/import", exported.body));
  const std::string copy = imported["id"];
  EXPECT_NE(copy, id);
  EXPECT_EQ(imported["ringside"]["tokens"], Ok(Call("GET", one))["ringside"]["tokens"]);
  const Json items = Ok(Call("GET", "/v1/conversations/" + copy + "/items"))["data"];
  ASSERT_EQ(items.size(), 2U);
  EXPECT_EQ(items[0]["content"][0]["text"], "Yo");
  // The next turn of both costs the same number of tokens.
  client.Frames();
  client.Send(Create({{"conversation", id}, {"input", "More"}}));
  engine.Answer(1, "a");
  client.Send(Create({{"conversation", copy}, {"input", "More"}}));
  EXPECT_EQ(engine.requests()[1].tokens, engine.requests()[2].tokens);
}

TEST_F(ConversationsTest, ImportsMayBeAsLargeAsExports) {
  HttpRequest request;
  request.method = "POST";
  request.path = "/v1/conversations/import";
  EXPECT_EQ(router.BodyLimit(request, 1), kMaxPortableBytes);
}

TEST_F(ConversationsTest, RefusesInvalidExports) {
  client.Send(Create({{"conversation", NewConversation()}}));
  engine.Answer(0, "Yo");
  const std::string id = Ok(Call("GET", "/v1/conversations"))["data"][0]["id"];
  const std::string bytes = Call("GET", "/v1/conversations/" + id + "/export").body;
  std::string flipped = bytes;
  flipped[flipped.size() / 2] ^= 1;
  for (const std::string& bad : {std::string("x"), std::string("{}"), bytes.substr(0, bytes.size() - 1), flipped}) {
    Fails(Call("POST", "/v1/conversations/import", bad), 400, "invalid_value", "body");
  }
  EXPECT_EQ(Ok(Call("GET", "/v1/conversations"))["data"].size(), 1U);
}

TEST_F(ConversationsTest, VerifiesAConversation) {
  const std::string one = "/v1/conversations/" + NewConversation();
  const Json verdict = Ok(Call("POST", one + "/verify"));
  EXPECT_EQ(verdict["ok"], true);
  EXPECT_EQ("/v1/conversations/" + verdict["id"].get<std::string>(), one);
  EXPECT_TRUE(verdict["records"].is_number_integer());
  // A key with scope admin looks after the whole store.
  EXPECT_EQ(Ok(Call("POST", one + "/verify", nullptr, "other"))["ok"], true);
  Fails(Call("GET", one + "/export", nullptr, "other"), 404, "conversation_not_found", "conversation");
}

TEST_F(ConversationsTest, ReportsStorageLocation) {
  const std::string id = NewConversation();
  Json ours = Ok(Call("GET", "/v1/conversations/" + id))["ringside"];
  EXPECT_EQ(ours["cache"], "new");
  EXPECT_EQ(ours["durable"], false);
  EXPECT_FALSE(ours.contains("seq"));
  EXPECT_TRUE(ours["epoch"].is_number_integer());
  clock.AdvanceMs(7000);
  client.Send(Create({{"conversation", id}}));
  engine.Answer(0, "Yo");
  ours = Ok(Call("GET", "/v1/conversations/" + id))["ringside"];
  EXPECT_EQ(ours["cache"], "slot");
  EXPECT_EQ(ours["updated_at"], 7);
}

TEST_F(ConversationsTest, OtherOwnersConversationIsUnknown) {
  const std::string one = "/v1/conversations/" + NewConversation();
  for (const char* method : {"GET", "DELETE"}) {
    Fails(Call(method, one, nullptr, "other"), 404, "conversation_not_found", "conversation");
  }
  Fails(Call("POST", one, {{"metadata", Json::object()}}, "other"), 404, "conversation_not_found", "conversation");
  Fails(Call("GET", one + "/items", nullptr, "other"), 404, "conversation_not_found", "conversation");
}

TEST_F(ConversationsTest, RetrievesCancelsAndDeletesResponses) {
  client.Send(Create());
  engine.Start(0);
  engine.Say(0, "Ye");
  const std::string id = client.Frames().front()["response"]["id"];
  const std::string one = "/v1/responses/" + id;
  Json response = Ok(Call("GET", one));
  EXPECT_EQ(response["status"], "in_progress");
  EXPECT_EQ(response["output"][0]["content"][0]["text"], "Ye");
  EXPECT_TRUE(response["usage"].is_null());
  const HttpResponse cancelled = Call("POST", one + "/cancel");
  EXPECT_THAT(engine.cancelled(), SizeIs(1));
  EXPECT_EQ(Come(cancelled).status, 0) << "the answer ends at the next step";
  engine.End(0, FinishReason::kCancelled);
  const Json as_cancelled = Ok(cancelled);
  EXPECT_EQ(as_cancelled["status"], "cancelled");
  EXPECT_EQ(as_cancelled["output"][0]["content"][0]["text"], "Ye");
  EXPECT_EQ(Ok(Call("POST", one + "/cancel")), as_cancelled) << "what has ended is left alone";
  EXPECT_EQ(Ok(Call("GET", one)), as_cancelled);
  EXPECT_EQ(Ok(Call("GET", one + "/input_items"))["data"][0]["content"][0]["text"], "Hi");
  Fails(Call("GET", one, nullptr, "other"), 404, "response_not_found", "response_id");
  EXPECT_EQ(Ok(Call("DELETE", one))["deleted"], true);
  Fails(Call("GET", one), 404, "response_not_found", "response_id");
}

}  // namespace
}  // namespace ringside
