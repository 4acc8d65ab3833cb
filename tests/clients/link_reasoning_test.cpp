// A link whose answers begin with reasoning.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/clients/link_on_server.h"

namespace ringside::client {
namespace {

class LinkReasoning : public ::testing::Test {
 protected:
  using Json = nlohmann::json;
  using Kind = LinkEvent::Kind;

  static Json Numbered(Json event, int seq) {
    event["ringside"] = {{"seq", seq}};
    return event;
  }
  static Json Created(int seq) {
    return Numbered({{"type", "response.created"}, {"response", {{"id", "resp_1"}, {"status", "in_progress"}}}}, seq);
  }
  static Json Thought(int seq, const std::string& text, const std::string& type = "response.reasoning_text.delta") {
    return Numbered({{"type", type}, {"delta", text}}, seq);
  }
  static Json Delta(int seq, const std::string& text) { return Thought(seq, text, "response.output_text.delta"); }
  /// With reasoning before the item.
  static Json End(int seq, const std::string& reasoning, const Json& item) {
    const Json thoughts = {{"type", "reasoning"},
                           {"summary", Json::array()},
                           {"content", {{{"type", "reasoning_text"}, {"text", reasoning}}}}};
    const Json response = {{"id", "resp_1"}, {"status", "completed"}, {"output", {thoughts, item}}};
    return Numbered({{"type", "response.completed"}, {"response", response}}, seq);
  }
  static Json Message(const std::string& text) {
    return {{"type", "message"}, {"content", {{{"type", "output_text"}, {"text", text}}}}};
  }
  static TurnRequest Turn() { return {.conversation = "conv_a", .input = {{"user", "hello"}}, .request_id = "req_x"}; }
};

TEST_F(LinkReasoning, ReasoningPrecedesTheText) {
  for (const char* type : {"response.reasoning_text.delta", "response.reasoning_summary_text.delta"}) {
    LinkOnServer on({.on_socket = [type](FakeSocket& socket, int) {
      socket.Read();
      for (const Json& event :
           {Created(0), Thought(1, "H", type), Thought(2, "m", type), Delta(3, "Yo"), End(4, "Hm", Message("Yo"))}) {
        socket.Send(event);
      }
    }});
    on.link().StartTurn(Turn());
    const LinkEvent end = on.WaitForEnd();
    EXPECT_EQ(on.reasoning, "Hm");
    EXPECT_EQ(on.text, "Yo");
    EXPECT_EQ(end.server.reasoning, "Hm");
    EXPECT_EQ(end.server.text, "Yo");
  }
}

TEST_F(LinkReasoning, SnapshotRestoresReasoningBeforeTheAnswer) {
  LinkOnServer on({.on_socket = [](FakeSocket& socket, int number) {
    socket.Read();
    if (number == 0) {
      for (const Json& event : {Created(0), Thought(1, "H")}) socket.Send(event);
      return socket.Drop();
    }
    socket.Send({{"type", "ringside:session.resumed"},
                 {"session", "conv_a"},
                 {"session_present", true},
                 {"epoch", 7},
                 {"next_seq", 4},
                 {"replay", "snapshot"}});
    socket.Send({{"type", "ringside:session.snapshot"},
                 {"response_id", "resp_1"},
                 {"text", ""},
                 {"reasoning", "Hm"},
                 {"next_seq", 4}});
    for (const Json& event : {Thought(4, "!"), Delta(5, "Yo"), End(6, "Hm!", Message("Yo"))}) socket.Send(event);
  }});
  on.link().StartTurn(Turn());
  EXPECT_EQ(on.WaitForEnd().kind, Kind::kFinished);
  EXPECT_EQ(on.reasoning, "Hm!");
  EXPECT_EQ(on.text, "Yo");
}

TEST_F(LinkReasoning, MayPrecedeAToolCall) {
  const Json item = {{"type", "function_call"}, {"name", "f"}, {"arguments", ""}};
  LinkOnServer on({.on_socket = [&](FakeSocket& socket, int) {
    socket.Read();
    const Json added = Numbered({{"type", "response.output_item.added"}, {"output_index", 1}, {"item", item}}, 2);
    const Json done = Numbered({{"type", "response.output_item.done"}, {"output_index", 1}, {"item", item}}, 3);
    for (const Json& event : {Created(0), Thought(1, "Hm"), added, done, End(4, "Hm", item)}) socket.Send(event);
  }});
  on.link().StartTurn(Turn());
  EXPECT_EQ(on.WaitForEnd().server.text, "[calls f ]");
  EXPECT_EQ(on.text, "[calls f ]");
}

}  // namespace
}  // namespace ringside::client
