#include "clients/wire/session_link.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>

#include "clients/chat/chat_client.h"
#include "tests/clients/link_on_server.h"

namespace ringside::client {
namespace {

using Json = nlohmann::json;
using Kind = LinkEvent::Kind;
using ::testing::HasSubstr;

Json Numbered(Json event, int seq) {
  event["ringside"] = {{"seq", seq}};
  return event;
}
Json Created(int seq, const std::string& id = "resp_1") {
  return Numbered({{"type", "response.created"}, {"response", {{"id", id}, {"status", "in_progress"}}}}, seq);
}
Json Delta(int seq, const std::string& text) {
  return Numbered({{"type", "response.output_text.delta"}, {"delta", text}}, seq);
}
Json End(int seq, const std::string& text, const std::string& status = "completed", const std::string& id = "resp_1") {
  const std::string type = status == "completed" ? "response.completed" : "response.incomplete";
  return Numbered(
      {{"type", type},
       {"response",
        {{"id", id},
         {"status", status},
         {"output", {{{"type", "message"}, {"content", {{{"type", "output_text"}, {"text", text}}}}}}},
         {"usage", {{"input_tokens", 9}, {"output_tokens", 3}, {"input_tokens_details", {{"cached_tokens", 5}}}}}}}},
      seq);
}
Json Resumed(const std::string& replay, int next_seq, uint64_t epoch = 7) {
  return {{"type", "ringside:session.resumed"},
          {"session", "conv_a"},
          {"session_present", true},
          {"epoch", epoch},
          {"next_seq", next_seq},
          {"replay", replay}};
}

TurnRequest Turn() { return {.conversation = "conv_a", .input = {{"user", "hello"}}, .request_id = "req_x"}; }

TEST(SessionLink, RetriesALostServerEverySecondForOverAMinute) {
  // The link retries on its own schedule: if the server is back after two seconds, it does not wait seven more.
  const LinkOptions options;
  EXPECT_LE(options.longest_delay, std::chrono::seconds(1));
  EXPECT_GE(options.max_attempts * options.longest_delay / 2, std::chrono::seconds(60));
  LinkOnServer on({.on_socket =
                       [](FakeSocket& socket, int) {
                         socket.Read();
                         for (const Json& event : {Created(0), End(1, "")}) socket.Send(event);
                       },
                   .refuse_upgrade = [](int number) { return number < 5 ? 503 : 0; }},
                  options.max_attempts, options.first_delay / 20, options.longest_delay / 20);
  on.link().StartTurn(Turn());
  EXPECT_EQ(on.WaitForEnd().kind, Kind::kFinished);
  EXPECT_EQ(on.retries, 5);
  EXPECT_LE(on.longest_delay, options.longest_delay / 20);
}

TEST(SessionLink, StreamsATurnAndReportsItsUsage) {
  Json asked;
  LinkOnServer on({.on_socket = [&](FakeSocket& socket, int) {
    asked = socket.Read();
    for (const Json& event : {Created(0), Delta(1, "Hel"), Delta(2, "lo"), End(3, "Hello")}) socket.Send(event);
  }});
  on.link().StartTurn(Turn());
  const LinkEvent end = on.WaitForEnd();
  EXPECT_EQ(end.kind, Kind::kFinished);
  EXPECT_EQ(end.server.status, "completed");
  EXPECT_EQ(end.server.report.cached_tokens, 5);
  EXPECT_EQ(on.text, "Hello");
  EXPECT_EQ(asked["type"], "response.create");
  EXPECT_EQ(asked["conversation"], "conv_a");
  EXPECT_EQ(asked["input"], "hello");
  EXPECT_EQ(asked["metadata"]["client_request_id"], "req_x");
}

TEST(SessionLink, TakesSeveralTurnsOverOneSocket) {
  std::atomic<int> sockets = 0;
  LinkOnServer on({.on_socket = [&](FakeSocket& socket, int) {
    ++sockets;
    for (int turn = 0; !socket.Read().is_null(); ++turn) {
      const std::string id = "resp_" + std::to_string(turn);
      socket.Send(Created(turn * 3, id));
      socket.Send(Delta(turn * 3 + 1, "x"));
      socket.Send(End(turn * 3 + 2, "x", "completed", id));
    }
  }});
  for (int turn = 0; turn < 3; ++turn) {
    on.link().StartTurn(Turn());
    EXPECT_EQ(on.WaitForEnd().kind, Kind::kFinished);
  }
  EXPECT_EQ(on.text, "xxx");
  EXPECT_EQ(sockets, 1);
}

TEST(SessionLink, ResumesByReplayWithoutLosingOrDoublingText) {
  Json resume;
  LinkOnServer on({.on_socket = [&](FakeSocket& socket, int number) {
    const Json first = socket.Read();
    if (number == 0) {
      for (const Json& event : {Created(0), Delta(1, "one "), Delta(2, "two ")}) socket.Send(event);
      return socket.Drop();
    }
    resume = first;
    // A faulty server repeats known events: the link drops them.
    for (const Json& event :
         {Resumed("events", 4), Delta(2, "two "), Delta(3, "three "), Delta(4, "four"), End(5, "one two three four")}) {
      socket.Send(event);
    }
  }});
  on.link().StartTurn(Turn());
  EXPECT_EQ(on.WaitForEnd().kind, Kind::kFinished);
  EXPECT_EQ(on.text, "one two three four");
  EXPECT_EQ(on.retries, 1);
  EXPECT_EQ(on.restores, 1);
  EXPECT_EQ(resume["type"], "ringside:session.resume");
  EXPECT_EQ(resume["session"], "conv_a");
  EXPECT_EQ(resume["after"], 2);
}

TEST(SessionLink, ResumesAfterACutAnywhere) {
  const std::vector<std::string> pieces = {"a", "b", "c", "d", "e", "f"};
  const auto events = [&] {
    std::vector<Json> all = {Created(0)};
    for (size_t i = 0; i < pieces.size(); ++i) all.push_back(Delta(static_cast<int>(i) + 1, pieces[i]));
    all.push_back(End(static_cast<int>(pieces.size()) + 1, "abcdef"));
    return all;
  }();
  for (size_t cut = 1; cut < events.size(); ++cut) {
    LinkOnServer on({.on_socket = [&](FakeSocket& socket, int number) {
      const Json first = socket.Read();
      if (number == 0) {
        for (size_t i = 0; i < cut; ++i) socket.Send(events[i]);
        return socket.Drop();
      }
      if (first["type"] != "ringside:session.resume") {  // nothing had arrived: the request is repeated
        EXPECT_EQ(first["metadata"]["client_request_id"], "req_x");
        for (const Json& event : events) socket.Send(event);
        return;
      }
      socket.Send(Resumed("events", static_cast<int>(cut)));
      for (size_t i = first["after"].get<size_t>() + 1; i < events.size(); ++i) socket.Send(events[i]);
    }});
    on.link().StartTurn(Turn());
    EXPECT_EQ(on.WaitForEnd().kind, Kind::kFinished) << cut;
    EXPECT_EQ(on.text, "abcdef") << cut;
  }
}

Json WithHistory(Json event, uint64_t seq, const std::string& chain) {
  if (event.contains("response")) {
    event["response"]["ringside"] = {{"seq", seq}, {"chain", chain}};
  } else {
    event["position"] = {{"seq", seq}, {"chain", chain}};
  }
  return event;
}

TEST(SessionLink, SendsItsKnownHistory) {
  std::vector<Json> resumes;
  LinkOnServer on({.on_socket = [&](FakeSocket& socket, int number) {
    const Json first = socket.Read();
    if (number == 0) {
      for (const Json& event : {Created(0), WithHistory(End(1, ""), 4, "aa")}) socket.Send(event);
      socket.Read();
      socket.Send(Created(2, "resp_2"));
      return socket.Drop();
    }
    resumes.push_back(first);
    if (number == 1) {
      // The next socket finds a longer history in another epoch; sequence numbers continue.
      for (const Json& event : {WithHistory(Resumed("events", 5, 8), 9, "bb"), Delta(3, "x")}) socket.Send(event);
      return socket.Drop();
    }
    for (const Json& event : {Resumed("events", 6, 9), Delta(4, "y"), End(5, "xy", "completed", "resp_2")}) {
      socket.Send(event);
    }
  }});
  on.link().StartTurn(Turn());
  EXPECT_EQ(on.WaitForEnd().kind, Kind::kFinished);
  on.link().StartTurn(Turn());
  EXPECT_EQ(on.WaitForEnd().kind, Kind::kFinished);
  EXPECT_EQ(on.text, "xy");
  ASSERT_EQ(resumes.size(), 2u);
  EXPECT_EQ(resumes[0]["known"], (Json{{"seq", 4}, {"chain", "aa"}}));
  EXPECT_EQ(resumes[0]["after"], 2);
  EXPECT_EQ(resumes[1]["known"], (Json{{"seq", 9}, {"chain", "bb"}}));
  EXPECT_EQ(resumes[1]["epoch"], 8);
  EXPECT_EQ(resumes[1]["after"], 3);
}

TEST(SessionLink, DivergedHistoryIsReportedNotShown) {
  for (const bool by_event : {true, false}) {
    LinkOnServer on({.on_socket = [&](FakeSocket& socket, int number) {
      socket.Read();
      if (number == 0) {
        socket.Send(Created(0));
        return socket.Drop();
      }
      if (by_event) {
        socket.Send({{"type", "ringside:session.failed"},
                     {"verb", "resume"},
                     {"error", {{"code", "history_diverged"}, {"message", "No."}}}});
      }
      socket.Close(4412);
    }});
    on.link().StartTurn(Turn());
    const LinkEvent end = on.WaitForEnd();
    EXPECT_EQ(end.kind, Kind::kLost);
    EXPECT_THAT(end.message, HasSubstr("differs"));
    EXPECT_EQ(on.retries, 1);
  }
}

TEST(SessionLink, AnswerCutByShutdownIsInterrupted) {
  LinkOnServer on({.on_socket =
                       [](FakeSocket& socket, int number) {
                         socket.Read();
                         if (number == 0) {
                           for (const Json& event : {Created(0), Delta(1, "one ")}) socket.Send(event);
                           return socket.Drop();
                         }
                         Json end = End(3, "one two", "incomplete");
                         end["response"]["incomplete_details"] = {{"reason", "interrupted"}};
                         for (const Json& event : {Resumed("events", 4, 9), Delta(2, "two"), end}) socket.Send(event);
                       },
                   .refuse_upgrade = [](int number) { return number == 1 ? 503 : 0; }});
  on.link().StartTurn(Turn());
  const LinkEvent end = on.WaitForEnd();
  EXPECT_EQ(end.kind, Kind::kFinished);
  EXPECT_EQ(end.server.incomplete_reason, "interrupted");
  EXPECT_EQ(on.text, "one two");
}

TEST(SessionLink, IgnoresNumbersOfAnotherEpoch) {
  // The server has lost its store: its sequence numbers restart below those seen here.
  LinkOnServer on({.on_socket = [](FakeSocket& socket, int number) {
    socket.Read();
    if (number == 0) {
      for (const Json& event : {Created(100), Delta(101, "a")}) socket.Send(event);
      return socket.Drop();
    }
    socket.Send(Resumed("snapshot", 5, 9));
    socket.Send({{"type", "ringside:session.snapshot"}, {"response_id", "resp_1"}, {"text", "ab"}, {"next_seq", 5}});
    for (const Json& event : {Delta(5, "c"), End(6, "abc")}) socket.Send(event);
  }});
  on.link().StartTurn(Turn());
  EXPECT_EQ(on.WaitForEnd().kind, Kind::kFinished);
  EXPECT_EQ(on.text, "abc");
}

TEST(SessionLink, ReportsTheQueuePosition) {
  LinkOnServer on({.on_socket = [](FakeSocket& socket, int) {
    socket.Read();
    socket.Send(Created(0));
    socket.Send({{"type", "ringside:response.queued"}, {"response_id", "resp_1"}, {"position", 2}});
    for (const Json& event : {Delta(1, "x"), End(2, "x")}) socket.Send(event);
  }});
  on.link().StartTurn(Turn());
  on.WaitFor(Kind::kNotice);
  EXPECT_EQ(on.WaitForEnd().kind, Kind::kFinished);
}

TEST(SessionLink, ResumesBySnapshot) {
  LinkOnServer on({.on_socket = [](FakeSocket& socket, int number) {
    socket.Read();
    if (number == 0) {
      for (const Json& event : {Created(0), Delta(1, "one ")}) socket.Send(event);
      return socket.Drop();
    }
    socket.Send(Resumed("snapshot", 40));
    socket.Send(
        {{"type", "ringside:session.snapshot"}, {"response_id", "resp_1"}, {"text", "one two "}, {"next_seq", 40}});
    for (const Json& event : {Delta(39, "lost?"), Delta(40, "three"), End(41, "one two three")}) socket.Send(event);
  }});
  on.link().StartTurn(Turn());
  EXPECT_EQ(on.WaitForEnd().kind, Kind::kFinished);
  EXPECT_EQ(on.text, "one two three");
}

TEST(SessionLink, ContradictingSnapshotRestartsTheAnswer) {
  LinkOnServer on({.on_socket = [](FakeSocket& socket, int number) {
    socket.Read();
    if (number == 0) {
      for (const Json& event : {Created(0), Delta(1, "one ")}) socket.Send(event);
      return socket.Drop();
    }
    socket.Send(Resumed("snapshot", 40));
    socket.Send({{"type", "ringside:session.snapshot"}, {"response_id", "resp_1"}, {"text", "uno "}, {"next_seq", 40}});
    for (const Json& event : {Delta(40, "dos"), End(41, "uno dos")}) socket.Send(event);
  }});
  on.link().StartTurn(Turn());
  EXPECT_EQ(on.WaitForEnd().kind, Kind::kFinished);
  EXPECT_EQ(on.text, "uno dos");
}

TEST(SessionLink, ReportsTheResponseWhoseEndItMissed) {
  LinkOnServer on({.on_socket = [](FakeSocket& socket, int number) {
    socket.Read();
    if (number == 0) {
      for (const Json& event : {Created(0), Delta(1, "one ")}) socket.Send(event);
      return socket.Drop();
    }
    socket.Send(Resumed("none", 9));
  }});
  on.link().StartTurn(Turn());
  const LinkEvent end = on.WaitForEnd();
  EXPECT_EQ(end.kind, Kind::kUnknown);
  EXPECT_EQ(end.server.response_id, "resp_1");
}

TEST(SessionLink, TerminalEventRestoresMissedText) {
  LinkOnServer on({.on_socket = [](FakeSocket& socket, int) {
    socket.Read();
    for (const Json& event : {Created(0), Delta(1, "Hel"), End(5, "Hello")}) socket.Send(event);
  }});
  on.link().StartTurn(Turn());
  EXPECT_EQ(on.WaitForEnd().kind, Kind::kFinished);
  EXPECT_EQ(on.text, "Hello");
}

TEST(SessionLink, CancelNamesTheResponse) {
  Json cancel;
  LinkOnServer on({.on_socket = [&](FakeSocket& socket, int) {
    socket.Read();
    for (const Json& event : {Created(0), Delta(1, "Hel")}) socket.Send(event);
    cancel = socket.Read();
    socket.Send(End(2, "Hel", "cancelled"));
  }});
  on.link().StartTurn(Turn());
  on.WaitFor(Kind::kText);
  on.link().Cancel();
  const LinkEvent end = on.WaitForEnd();
  EXPECT_EQ(end.kind, Kind::kFinished);
  EXPECT_EQ(end.server.status, "cancelled");
  EXPECT_EQ(cancel["type"], "response.cancel");
  EXPECT_EQ(cancel["response_id"], "resp_1");
}

TEST(SessionLink, EarlyCancelWaitsForTheResponseId) {
  Json cancel;
  std::promise<void> asked, cancelled;
  LinkOnServer on({.on_socket = [&](FakeSocket& socket, int) {
    socket.Read();
    asked.set_value();
    cancelled.get_future().wait();
    socket.Send(Created(0));
    cancel = socket.Read();
    socket.Send(End(1, "", "cancelled"));
  }});
  on.link().StartTurn(Turn());
  asked.get_future().wait();
  on.link().Cancel();
  cancelled.set_value();
  EXPECT_EQ(on.WaitForEnd().server.status, "cancelled");
  EXPECT_EQ(cancel["response_id"], "resp_1");
}

TEST(SessionLink, CancelWithoutAConnectionGivesUp) {
  LinkOnServer on({.on_socket =
                       [](FakeSocket& socket, int) {
                         socket.Read();
                         socket.Send(Created(0));
                         socket.Drop();
                       },
                   .refuse_upgrade = [](int number) { return number == 0 ? 0 : 503; }},
                  1000000);
  on.link().StartTurn(Turn());
  on.WaitFor(Kind::kRetrying);
  on.link().Cancel();
  EXPECT_EQ(on.WaitForEnd().kind, Kind::kLost);
}

TEST(SessionLink, ErrorRefusesTheTurnAndKeepsTheSocket) {
  LinkOnServer on({.on_socket = [](FakeSocket& socket, int) {
    socket.Read();
    socket.Send({{"type", "error"},
                 {"status", 400},
                 {"error", {{"type", "invalid_request_error"}, {"code", "bad"}, {"message", "No such thing."}}}});
    socket.Read();
    for (const Json& event : {Created(0), Delta(1, "ok"), End(2, "ok")}) socket.Send(event);
  }});
  on.link().StartTurn(Turn());
  const LinkEvent refused = on.WaitForEnd();
  EXPECT_EQ(refused.kind, Kind::kRefused);
  EXPECT_EQ(refused.message, "No such thing.");
  EXPECT_EQ(refused.server.error.code, "bad");
  on.link().StartTurn(Turn());
  EXPECT_EQ(on.WaitForEnd().kind, Kind::kFinished);
  EXPECT_EQ(on.text, "ok");
}

TEST(SessionLink, OverloadRefusalHasARetryDelay) {
  LinkOnServer on({.on_socket = [](FakeSocket& socket, int) {
    socket.Read();
    socket.Send({{"type", "error"},
                 {"status", 429},
                 {"error", {{"code", "rate_limit_exceeded"}, {"message", "It is full."}, {"retry_after_ms", 1200}}}});
  }});
  on.link().StartTurn(Turn());
  EXPECT_EQ(on.WaitForEnd().message, "It is full. Try again in 2 s.");
}

TEST(SessionLink, RefusedKeyIsNotRetried) {
  std::atomic<int> upgrades = 0;
  LinkOnServer on({.refuse_upgrade = [&](int) {
    ++upgrades;
    return 401;
  }});
  on.link().StartTurn(Turn());
  const LinkEvent end = on.WaitForEnd();
  EXPECT_EQ(end.kind, Kind::kLost);
  EXPECT_THAT(end.message, HasSubstr("key"));
  EXPECT_EQ(upgrades, 1);
}

TEST(SessionLink, DoesNotReclaimATakenOverConversation) {
  LinkOnServer on({.on_socket = [](FakeSocket& socket, int) {
    socket.Read();
    socket.Send(Created(0));
    socket.Close(4409);
  }});
  on.link().StartTurn(Turn());
  const LinkEvent end = on.WaitForEnd();
  EXPECT_EQ(end.kind, Kind::kLost);
  EXPECT_THAT(end.message, HasSubstr("taken"));
  EXPECT_EQ(on.retries, 0);
}

TEST(SessionLink, DeletedConversationIsNotRetried) {
  LinkOnServer on({.on_socket = [](FakeSocket& socket, int) {
    socket.Read();
    socket.Send(Created(0));
    socket.Close(4410);
  }});
  on.link().StartTurn(Turn());
  const LinkEvent end = on.WaitForEnd();
  EXPECT_EQ(end.kind, Kind::kLost);
  EXPECT_THAT(end.message, HasSubstr("deleted"));
  EXPECT_EQ(on.retries, 0);
}

TEST(SessionLink, GivesUpAfterItsAttempts) {
  LinkOnServer on({.refuse_upgrade = [](int) { return 503; }}, 3);
  on.link().StartTurn(Turn());
  EXPECT_EQ(on.WaitForEnd().kind, Kind::kLost);
  EXPECT_EQ(on.retries, 3);
}

TEST(SessionLink, GivesUpOnAServerThatHangsUpAfterGreeting) {
  LinkOnServer on({.on_socket = [](FakeSocket& socket, int) { socket.Close(1013); }}, 3);
  on.link().StartTurn(Turn());
  EXPECT_EQ(on.WaitForEnd().kind, Kind::kLost);
  EXPECT_EQ(on.retries, 3);
  EXPECT_EQ(on.restores, 0);
}

TEST(SessionLink, RefusedResumeLeavesTheEndUnknown) {
  LinkOnServer on({.on_socket = [](FakeSocket& socket, int number) {
    socket.Read();
    if (number == 0) {
      socket.Send(Created(0));
      return socket.Drop();
    }
    socket.Send({{"type", "ringside:session.failed"}, {"verb", "resume"}, {"error", {{"message", "No."}}}});
  }});
  on.link().StartTurn(Turn());
  const LinkEvent end = on.WaitForEnd();
  EXPECT_EQ(end.kind, Kind::kUnknown);
  EXPECT_EQ(end.server.response_id, "resp_1");
}

TEST(SessionLink, MissingConversationIsReportedLost) {
  LinkOnServer on({.on_socket = [](FakeSocket& socket, int number) {
    socket.Read();
    if (number == 0) {
      socket.Send(Created(0));
      return socket.Drop();
    }
    socket.Send({{"type", "ringside:session.resumed"}, {"session", "conv_a"}, {"session_present", false}});
  }});
  on.link().StartTurn(Turn());
  EXPECT_EQ(on.WaitForEnd().kind, Kind::kLost);
}

TEST(SessionLink, LinkMayBeDestroyedAtAnyPoint) {
  for (int run = 0; run < 20; ++run) {
    LinkOnServer on({.on_socket = [run](FakeSocket& socket, int) {
      socket.Read();
      socket.Send(Created(0));
      for (int i = 1; i < 50; ++i) socket.Send(Delta(i, "x"));
      if (run % 3 == 0) socket.Drop();
    }});
    on.link().StartTurn(Turn());
    if (run % 2 == 0) on.WaitFor(Kind::kText);
  }
}

TEST(SessionLink, ReopensAnIdleSocketWhenTheNextTurnNeedsIt) {
  LinkOnServer on({.on_socket = [](FakeSocket& socket, int number) {
    const Json asked = socket.Read();
    EXPECT_EQ(asked["type"], "response.create");
    const std::string id = "resp_" + std::to_string(number);
    socket.Send(Created(number * 2, id));
    socket.Send(End(number * 2 + 1, "x", "completed", id));
    if (number == 0) socket.Close(1012);
  }});
  on.link().StartTurn(Turn());
  EXPECT_EQ(on.WaitForEnd().kind, Kind::kFinished);
  on.link().StartTurn(Turn());
  EXPECT_EQ(on.WaitForEnd().kind, Kind::kFinished);
  EXPECT_EQ(on.text, "xx");
}

TEST(SessionLink, RewindsAndForks) {
  std::vector<Json> asked;
  LinkOnServer on({.on_socket = [&](FakeSocket& socket, int) {
    asked.push_back(socket.Read());
    socket.Send({{"type", "ringside:session.rewound"}, {"session", "conv_a"}, {"items", 2}});
    asked.push_back(socket.Read());
    socket.Send({{"type", "ringside:session.forked"}, {"session", "conv_b"}});
    asked.push_back(socket.Read());
    socket.Send({{"type", "ringside:session.failed"}, {"verb", "rewind"}, {"error", {{"message", "Too far."}}}});
  }});
  on.link().Rewind("conv_a", 2);
  const LinkEvent rewound = on.WaitForEnd();
  EXPECT_EQ(rewound.kind, Kind::kVerbDone);
  EXPECT_EQ(rewound.server.items, 2);
  on.link().Fork("conv_a", std::nullopt);
  EXPECT_EQ(on.WaitForEnd().server.session, "conv_b");
  on.link().Rewind("conv_a", 99);
  const LinkEvent failed = on.WaitForEnd();
  EXPECT_EQ(failed.kind, Kind::kVerbFailed);
  EXPECT_EQ(failed.message, "Too far.");
  EXPECT_EQ(asked[0], (Json{{"type", "ringside:session.rewind"}, {"session", "conv_a"}, {"to", 2}}));
  EXPECT_EQ(asked[1], (Json{{"type", "ringside:session.fork"}, {"session", "conv_a"}}));
}

TEST(SessionLink, SurvivesMalformedFrames) {
  LinkOnServer on({.on_socket = [](FakeSocket& socket, int) {
    socket.Read();
    socket.Send("text");
    socket.Send(Json::array({1, 2}));
    socket.Send({{"type", 5}});
    socket.Send({{"type", "response.created"}, {"response", "none"}, {"ringside", "none"}});
    socket.Send({{"type", "some.future.event"}, {"delta", 1}});
    for (const Json& event : {Created(0), Delta(1, "ok"), End(2, "ok")}) socket.Send(event);
  }});
  on.link().StartTurn(Turn());
  EXPECT_EQ(on.WaitForEnd().kind, Kind::kFinished);
  EXPECT_EQ(on.text, "ok");
}

}  // namespace
}  // namespace ringside::client
