// One contract for every turn that the server cannot finish, after a crash, a failed device, rank or engine, or a stop:
// delivered text stays in the conversation, the response is `interrupted`, and a turn with empty input continues it.
#include <gmock/gmock.h>

#include <functional>

#include "tests/session/durable_fixture.h"

namespace ringside {
namespace {

using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::IsEmpty;
using ::testing::StartsWith;

/// How the server fails the turn with engine number `index`.
struct Harm {
  const char* name;
  std::function<void(SessionTable& table, ScriptedEngine& engine, size_t index)> end;
  const char* cause;  // named in the response; "" = none
};

void FailWith(ScriptedEngine& engine, size_t index, Status status) {
  engine.End(index, FinishReason::kError, std::move(status));
}

const Harm kHarms[] = {
    {"a lost rank", [](auto&, auto& engine, size_t index) { FailWith(engine, index, Unavailable("rank 1 is gone")); },
     "rank 1 is gone"},
    {"an error of the system", [](auto&, auto& engine, size_t index) { FailWith(engine, index, IoError("read")); },
     "read"},
    {"an error without a class of its own",
     [](auto&, auto& engine, size_t index) { FailWith(engine, index, Corruption("bits")); }, "bits"},
    {"a stop",
     [](auto& table, auto& engine, size_t index) {
       table.InterruptTurns();
       EXPECT_THAT(engine.cancelled(), ElementsAre(engine.requests()[index].turn));
       engine.End(index, FinishReason::kCancelled);
     },
     "The server stopped"},
    {"a crash", [](auto&, auto&, size_t) {}, ""},
};

class InterruptedTurnTest : public DurableSessionTest {
 protected:
  static TurnSpec PrepareContinuation(const std::string& conversation) {
    TurnSpec spec = Ask("", conversation);
    spec.input.clear();
    return spec;
  }
  void End(const Harm& harm, size_t index) {
    harm.end(*table, *engine, index);
    table->Flush();
    if (*harm.cause == '\0') Restart();
  }
  std::shared_ptr<const Response> Got(const std::string& response) { return table->GetResponse(me, response).value(); }
  void ExpectInterrupted(const std::string& response, std::string_view text, const char* cause) {
    EXPECT_TRUE(Got(response)->interrupted());
    EXPECT_EQ(Got(response)->text, text);
    EXPECT_THAT(Got(response)->error.message(), StartsWith(cause));
    EXPECT_EQ(Got(response)->error.ok(), *cause == '\0');
  }
};

TEST_F(InterruptedTurnTest, EveryInterruptionKeepsInputAndSentText) {
  const std::string answer = "abcd";
  for (const Harm& harm : kHarms) {
    for (size_t said = 0; said <= answer.size(); ++said) {
      SCOPED_TRACE(std::string(harm.name) + " after " + std::to_string(said));
      Restart();
      const std::string id = NewConversation(), text = answer.substr(0, said);
      const std::string response = Start(Ask("Hi", id));
      engine->Start(0);
      engine->Say(0, text);
      table->Flush();
      const auto told = Events(response);
      End(harm, 0);
      std::vector<std::string> events = Events(response);
      for (int start = 0; start < 2; ++start) {
        ExpectInterrupted(response, text, harm.cause);
        std::vector<std::string> kept = {"Hi"};
        if (said > 0) kept.push_back(text + "...");
        EXPECT_EQ(Texts(id), kept);
        EXPECT_EQ(Events(response), events);
        Restart();
      }
      EXPECT_THAT(events.back(), EndsWith("incomplete"));
      events.pop_back();
      EXPECT_EQ(events, told);
      Turn(PrepareContinuation(id), "!");
      EXPECT_THAT(Texts(id), ElementsAre("Hi", text + "!"));
    }
  }
}

TEST_F(InterruptedTurnTest, QueuedTurnKeepsItsInput) {
  for (const Harm& harm : kHarms) {
    SCOPED_TRACE(harm.name);
    Restart();
    const std::string id = NewConversation(), response = Start(Ask("Hi", id));
    table->Flush();
    End(harm, 0);
    EXPECT_THAT(Events(response), ElementsAre("begun 0", "ended 2 incomplete"));
    ExpectInterrupted(response, "", harm.cause);
    EXPECT_THAT(Texts(id), ElementsAre("Hi"));
    Turn(PrepareContinuation(id), "Yo");
    EXPECT_THAT(Texts(id), ElementsAre("Hi", "Yo"));
  }
}

TEST_F(InterruptedTurnTest, ChainContinuesFromTheInterruptedResponse) {
  for (const Harm& harm : kHarms) {
    SCOPED_TRACE(harm.name);
    Restart();
    const std::string response = Start(Ask("Hi"));
    engine->Start(0);
    engine->Say(0, "He");
    table->Flush();
    End(harm, 0);
    TurnSpec go_on = Ask("", "", response);
    go_on.input.clear();
    Start(go_on);
    EXPECT_THAT(tokenizer.Decode(engine->last().tokens), EndsWith("<|im_start|>assistant\nHe"));
    EXPECT_TRUE(engine->last().continues_answer);
    EXPECT_THAT(engine->forks(), IsEmpty());
  }
}

TEST_F(InterruptedTurnTest, TurnDurabilityKeepsSentTextWhileTheServerCanWrite) {
  options.durability = Durability::kTurn;
  for (const Harm& harm : kHarms) {
    if (*harm.cause == '\0') continue;  // lost in a crash
    SCOPED_TRACE(harm.name);
    Restart();
    const std::string id = NewConversation();
    Start(Ask("Hi", id));
    table->Flush();
    engine->Start(0);
    table->Flush();
    engine->Say(0, "ab");
    EXPECT_THAT(sink->text(), EndsWith("ab"));
    End(harm, 0);
    const uint64_t epoch = Resume({id, {}, {}, {}})->reply().epoch;
    Restart();
    EXPECT_THAT(Texts(id), ElementsAre("Hi", "ab..."));
    EXPECT_EQ(Resume({id, {}, {}, {}})->reply().epoch, epoch + 1);
  }
}

TEST_F(InterruptedTurnTest, HeldBackTextBelongsToTheAnswer) {
  const std::string id = NewConversation(), response = Start(Ask("Hi", id));
  engine->Start(0);
  engine->Say(0, "a");
  engine->HoldBack(0, "bc");
  FailWith(*engine, 0, Unavailable("NaN"));
  table->Flush();
  for (int start = 0; start < 2; ++start) {
    ExpectInterrupted(response, "abc", "NaN");
    Restart();
  }
}

// With ignore_eos or min_tokens the model passes an end of turn, and the turn may be cut right after it.
TEST_F(InterruptedTurnTest, TurnCutAfterAnIgnoredEndContinues) {
  for (const Harm& harm : kHarms) {
    SCOPED_TRACE(harm.name);
    Restart();
    const std::string id = NewConversation(), response = Start(Ask("Hi", id));
    engine->Start(0);
    engine->Say(0, "a");
    engine->PassEnd(0);
    table->Flush();
    End(harm, 0);
    ExpectInterrupted(response, "a", harm.cause);
    Turn(PrepareContinuation(id), "!");
    EXPECT_THAT(Texts(id), ElementsAre("Hi", "a!"));
  }
}

// The client must change or repeat the request: it has received no answer.
TEST_F(InterruptedTurnTest, RefusalLeavesTheConversationUnchanged) {
  for (const Status& refusal : {Overloaded("too many turns wait"), InvalidArgument("no room for this window"),
                                Status(StatusCode::kBusy, "another turn runs")}) {
    Restart();
    const std::string id = NewConversation(), response = Start(Ask("Hi", id));
    FailWith(*engine, 0, refusal);
    table->Flush();
    for (int start = 0; start < 2; ++start) {
      EXPECT_EQ(Got(response)->status, ResponseStatus::kFailed);
      EXPECT_EQ(Got(response)->error.message(), refusal.message());
      EXPECT_THAT(Texts(id), IsEmpty());
      Restart();
    }
    Turn(Ask("Hi", id), "Yo");
    EXPECT_THAT(Texts(id), ElementsAre("Hi", "Yo"));
  }
}

TEST_F(InterruptedTurnTest, RefusalAfterATokenKeepsTheSentText) {
  const std::string id = NewConversation(), response = Start(Ask("Hi", id));
  engine->Start(0);
  engine->Say(0, "a");
  FailWith(*engine, 0, InvalidArgument("the grammar takes too much work"));
  table->Flush();
  ExpectInterrupted(response, "a", "the grammar takes too much work");
  EXPECT_THAT(Texts(id), ElementsAre("Hi", "a..."));
}

TEST_F(InterruptedTurnTest, AnswerThatEndsBeforeTheStopIsComplete) {
  for (const FinishReason reason : {FinishReason::kStop, FinishReason::kLength}) {
    Restart();
    const std::string id = NewConversation(), response = Start(Ask("Hi", id));
    engine->Start(0);
    engine->Say(0, "Yo");
    table->InterruptTurns();
    engine->End(0, reason);
    table->Flush();
    for (int start = 0; start < 2; ++start) {
      EXPECT_FALSE(Got(response)->interrupted());
      EXPECT_EQ(Got(response)->incomplete_reason, "");
      EXPECT_EQ(Got(response)->reason, reason);
      Restart();
    }
  }
}

TEST_F(InterruptedTurnTest, InterruptedTurnIsCounted) {
  for (int i = 0; i < 3; ++i) {
    Start(Ask("Hi", NewConversation()));
    FailWith(*engine, engine->count() - 1, Unavailable("gone"));
  }
  Start(Ask("Hi", NewConversation()));
  engine->AnswerLast("Yo");
  table->Flush();
  EXPECT_EQ(table->stats().interrupted, 3U);
}

class InterruptedInMemoryTest : public ::testing::Test, protected TableFixture {
 protected:
  const Caller me{"me", 7};
  std::shared_ptr<RecordingSink> sink = std::make_shared<RecordingSink>(7);
};

TEST_F(InterruptedInMemoryTest, ConversationKeepsTheSentText) {
  TurnSpec spec;
  spec.conversation = table.CreateSession(me, {}, {}, {}).value().id;
  TurnSpec go_on = spec;
  spec.input = {{ChatRole::kUser, "Hi"}};
  ASSERT_TRUE(table.StartTurn(me, spec, sink).ok());
  engine.Start(0);
  engine.Say(0, "He");
  FailWith(engine, 0, Unavailable("NaN"));
  EXPECT_THAT(sink->lines().back(), EndsWith("incomplete"));
  EXPECT_EQ(table.GetItems(me, spec.conversation)->size(), 2U);
  ASSERT_TRUE(table.StartTurn(me, go_on, sink).ok());
  EXPECT_THAT(tokenizer.Decode(engine.last().tokens), EndsWith("<|im_start|>assistant\nHe"));
}

// Its client has the whole history and repeats the request.
TEST_F(InterruptedInMemoryTest, AStatelessRequestFails) {
  TurnSpec spec;
  spec.input = {{ChatRole::kUser, "Hi"}};
  spec.carries_history = true;
  spec.store = false;
  for (const size_t turn : {0, 1}) {
    ASSERT_TRUE(table.StartTurn(me, spec, sink).ok());
    engine.Start(turn);
    engine.Say(turn, "He");
    if (turn == 0) {
      FailWith(engine, turn, Unavailable("NaN"));
    } else {
      table.InterruptTurns();
      engine.End(turn, FinishReason::kCancelled);
    }
    EXPECT_THAT(sink->lines().back(), EndsWith("failed"));
  }
}

}  // namespace
}  // namespace ringside
