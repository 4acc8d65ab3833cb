#include "session/table/session_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <future>
#include <optional>

#include "tests/session/table_test.h"

namespace ringside {
namespace {

using ::testing::ElementsAre;
using ::testing::SizeIs;

class SessionTableTest : public TableTest {};

TEST_F(SessionTableTest, TurnEventsAreOrderedAndNumbered) {
  Turn(Ask("Hi", NewConversation()), "Yo");
  EXPECT_THAT(sink->lines(), ElementsAre("begun 0", "opened 2", "text 4 Y", "text 5 o", "ended 6 completed"));
}

TEST_F(SessionTableTest, SecondTurnReusesTheSampledIds) {
  const std::string id = NewConversation();
  Turn(Ask("Hi", id), "Yo");
  Turn(Ask("More", id), "No");
  const auto requests = engine.requests();
  EXPECT_EQ(Prompt(requests[1]),
            Prompt(requests[0]) + "Yo<|im_end|>\n<|im_start|>user\nMore<|im_end|>\n<|im_start|>assistant\n");
  EXPECT_EQ(requests[0].timeline, requests[1].timeline);
  EXPECT_EQ(requests[0].window, requests[1].window);
  EXPECT_THAT(Texts(id), ElementsAre("Hi", "Yo", "More", "No"));
}

TEST_F(SessionTableTest, ForeignIdLooksUnknown) {
  const std::string id = NewConversation();
  const std::string response = Turn(Ask("Hi", id), "Yo");
  const Status unknown = table.GetSession(other, "conv_x").status();
  Status foreign = table.GetSession(other, id).status();
  EXPECT_EQ(foreign.code(), unknown.code());
  EXPECT_EQ(foreign.reason(), unknown.reason());
  EXPECT_EQ(foreign.message().size() - id.size(), unknown.message().size() - 6);
  EXPECT_EQ(table.SetMetadata(other, id, {}).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(table.DeleteSession(other, id).code(), StatusCode::kNotFound);
  EXPECT_EQ(table.GetItems(other, id).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(table.AddItems(other, id, {}).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(table.Rewind(other, id, 0).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(table.Fork(other, id, {}).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(table.Cancel(other, response).code(), StatusCode::kNotFound);
  EXPECT_EQ(table.DeleteResponse(other, response).code(), StatusCode::kNotFound);
  EXPECT_EQ(table.GetInputItems(other, response).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(table.FindResponse(other, response).code(), StatusCode::kNotFound);
  EXPECT_EQ(table.StartTurn(other, Ask("Hi", id), sink).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(table.StartTurn(other, Ask("Hi", "", response), sink).status().reason(), "previous_response_not_found");
  const auto theirs = std::make_shared<RecordingSink>(8);
  EXPECT_TRUE(table.Resume(other, {id, {}, {}, {}}, theirs).ok());
  EXPECT_FALSE(theirs->reply().present);
  EXPECT_TRUE(table.ListSessions(other, "", 10)->sessions.empty());
  EXPECT_EQ(table.ListSessions(other, id, 10).status().code(), StatusCode::kNotFound);
}

TEST_F(SessionTableTest, ChainContinuesInPlace) {
  const std::string first = Turn(Ask("Hi"), "Yo");
  Turn(Ask("More", "", first), "No");
  const auto requests = engine.requests();
  EXPECT_EQ(requests[0].timeline, requests[1].timeline);
  EXPECT_TRUE(engine.forks().empty());
  EXPECT_TRUE(table.ListSessions(me, "", 10)->sessions.empty());  // a chain is not a conversation
}

TEST_F(SessionTableTest, ContinuingAnOlderResponseForks) {
  const std::string first = Turn(Ask("Hi"), "Yo");
  Turn(Ask("A", "", first), "1");
  Turn(Ask("B", "", first), "2");
  const auto requests = engine.requests();
  EXPECT_NE(requests[2].timeline, requests[0].timeline);
  EXPECT_THAT(engine.forks(), ElementsAre(std::pair(requests[0].timeline, requests[2].timeline)));
  EXPECT_EQ(Prompt(requests[2]),
            Prompt(requests[0]) + "Yo<|im_end|>\n<|im_start|>user\nB<|im_end|>\n<|im_start|>assistant\n");
}

TEST_F(SessionTableTest, TwoContinuationsOfAResponseRunConcurrently) {
  const std::string first = Turn(Ask("Hi"), "Yo");
  ASSERT_TRUE(table.StartTurn(me, Ask("A", "", first), sink).ok());
  ASSERT_TRUE(table.StartTurn(me, Ask("B", "", first), std::make_shared<RecordingSink>(7)).ok());
  engine.Answer(2, "2");
  engine.Answer(1, "1");
  EXPECT_NE(engine.requests()[1].timeline, engine.requests()[2].timeline);
}

TEST_F(SessionTableTest, ContinuingAConversationResponseForks) {
  const std::string id = NewConversation();
  const std::string first = Turn(Ask("Hi", id), "Yo");
  Turn(Ask("B", "", first), "2");
  EXPECT_THAT(Texts(id), ElementsAre("Hi", "Yo"));
  EXPECT_THAT(engine.forks(), SizeIs(1));
}

TEST_F(SessionTableTest, RunningResponseCannotBeContinued) {
  const Result<TurnTicket> ticket = table.StartTurn(me, Ask("Hi"), sink);
  EXPECT_EQ(table.StartTurn(me, Ask("A", "", ticket->response_id), sink).status().code(), StatusCode::kBusy);
}

TEST_F(SessionTableTest, BusyConversationRefusesChanges) {
  const std::string id = NewConversation();
  ASSERT_TRUE(table.StartTurn(me, Ask("Hi", id), sink).ok());
  EXPECT_EQ(table.StartTurn(me, Ask("A", id), sink).status().reason(), "conversation_locked");
  EXPECT_EQ(table.AddItems(me, id, {{ChatRole::kUser, "x"}}).status().code(), StatusCode::kBusy);
  EXPECT_EQ(table.Rewind(me, id, 0).status().code(), StatusCode::kBusy);
  EXPECT_TRUE(table.Fork(me, id, {}).ok());
  engine.Answer(0, "Yo");
  EXPECT_TRUE(table.StartTurn(me, Ask("A", id), sink).ok());
}

TEST_F(SessionTableTest, SessionLenIsExact) {
  const std::string id = NewConversation();
  Turn(Ask("Hi", id), "Yo");
  const auto tokens = static_cast<int64_t>(engine.last().tokens.size());
  for (const int64_t limit : {tokens - 1, tokens, tokens + 1}) {
    WindowOverrides window;
    window.session_len = limit;
    const Result<SessionInfo> info = table.CreateSession(me, {}, window, {});
    const Result<TurnTicket> ticket = table.StartTurn(me, Ask("Hi", info->id), sink);
    EXPECT_EQ(ticket.ok(), limit >= tokens) << limit;
    if (ticket.ok()) {
      EXPECT_EQ(engine.last().session_len, limit);
    } else {
      EXPECT_EQ(ticket.status().reason(), "context_length_exceeded");
    }
  }
}

TEST_F(SessionTableTest, RefusedTurnLeavesNoState) {
  const std::string id = NewConversation();
  engine.Refuse(Status(StatusCode::kOverloaded, "full"));
  EXPECT_EQ(table.StartTurn(me, Ask("Hi", id), sink).status().code(), StatusCode::kOverloaded);
  EXPECT_TRUE(sink->lines().empty());
  EXPECT_TRUE(Texts(id).empty());
  engine.Refuse({});
  Turn(Ask("Hi", id), "Yo");
  EXPECT_THAT(Texts(id), ElementsAre("Hi", "Yo"));
}

TEST_F(SessionTableTest, CancelledAnswerKeepsItsText) {
  const std::string id = NewConversation();
  const std::string response = table.StartTurn(me, Ask("Hi", id), sink)->response_id;
  engine.Start(0);
  engine.Say(0, "Ye");
  ASSERT_TRUE(table.Cancel(me, response).ok());
  EXPECT_THAT(engine.cancelled(), ElementsAre(engine.requests()[0].turn));
  engine.End(0, FinishReason::kCancelled);
  EXPECT_EQ(StatusOf(response), ResponseStatus::kCancelled);
  EXPECT_THAT(Texts(id), ElementsAre("Hi", "Ye"));
  EXPECT_FALSE(table.GetItems(me, id)->back().complete);
  EXPECT_TRUE(table.Cancel(me, response).ok());  // too late: no effect
  EXPECT_THAT(engine.cancelled(), SizeIs(1));
}

TEST_F(SessionTableTest, TurnCancelledInTheQueueCanBeRepeated) {
  const std::string id = NewConversation();
  ASSERT_TRUE(table.StartTurn(me, Ask("Hi", id), sink).ok());
  engine.End(0, FinishReason::kCancelled);
  EXPECT_THAT(sink->lines(), ElementsAre("begun 0", "ended 2 cancelled"));
  TurnSpec again;
  again.conversation = id;
  Turn(std::move(again), "Yo");
  EXPECT_EQ(engine.requests()[0].tokens, engine.requests()[1].tokens);
  EXPECT_THAT(Texts(id), ElementsAre("Hi", "Yo"));
}

TEST_F(SessionTableTest, RefusedTurnChangesNothing) {
  const std::string id = NewConversation();
  Turn(Ask("Hi", id), "Yo");
  const std::string failed = table.StartTurn(me, Ask("More", id), sink)->response_id;
  engine.Start(1);
  engine.End(1, FinishReason::kError, Overloaded("full"));
  EXPECT_EQ(StatusOf(failed), ResponseStatus::kFailed);
  EXPECT_THAT(Texts(id), ElementsAre("Hi", "Yo"));
  Turn(Ask("More", id), "No");
  EXPECT_EQ(engine.requests()[1].tokens, engine.requests()[2].tokens);
}

TEST_F(SessionTableTest, RefusedChainTurnKeepsItsParentContinuable) {
  const std::string first = Turn(Ask("Hi"), "Yo");
  ASSERT_TRUE(table.StartTurn(me, Ask("A", "", first), sink).ok());
  engine.Start(1);
  engine.End(1, FinishReason::kError, Overloaded("full"));
  Turn(Ask("A", "", first), "1");
  EXPECT_EQ(engine.requests()[1].tokens, engine.requests()[2].tokens);
  EXPECT_TRUE(engine.forks().empty());
}

TEST_F(SessionTableTest, RewindForgetsItemsAndTheirResponses) {
  const std::string id = NewConversation();
  const std::string first = Turn(Ask("Hi", id), "Yo");
  const std::string second = Turn(Ask("More", id), "No");
  ASSERT_TRUE(table.Rewind(me, id, 2).ok());
  EXPECT_THAT(Texts(id), ElementsAre("Hi", "Yo"));
  EXPECT_EQ(StatusOf(first), ResponseStatus::kCompleted);
  EXPECT_EQ(table.FindResponse(me, second).code(), StatusCode::kNotFound);
  Turn(Ask("More", id), "Si");
  EXPECT_EQ(engine.requests()[1].tokens, engine.requests()[2].tokens);
  EXPECT_EQ(table.Rewind(me, id, 5).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(table.Rewind(me, id, -1).status().code(), StatusCode::kInvalidArgument);
}

TEST_F(SessionTableTest, RegenerateRepeatsTheQuestion) {
  const std::string id = NewConversation();
  Turn(Ask("Hi", id), "Yo");
  ASSERT_TRUE(table.Rewind(me, id, 1).ok());
  TurnSpec again;
  again.conversation = id;
  Turn(std::move(again), "Hey");
  EXPECT_EQ(engine.requests()[0].tokens, engine.requests()[1].tokens);
  EXPECT_THAT(Texts(id), ElementsAre("Hi", "Hey"));
}

TEST_F(SessionTableTest, EmptyInputNeedsAnOpenQuestion) {
  const std::string id = NewConversation();
  TurnSpec empty;
  empty.conversation = id;
  EXPECT_EQ(table.StartTurn(me, empty, sink).status().param(), "input");
  Turn(Ask("Hi", id), "Yo");
  EXPECT_EQ(table.StartTurn(me, empty, sink).status().param(), "input");
}

TEST_F(SessionTableTest, ForkIsASeparateConversation) {
  const std::string id = NewConversation();
  Turn(Ask("Hi", id), "Yo");
  Turn(Ask("More", id), "No");
  const Result<SessionInfo> fork = table.Fork(me, id, 2);
  ASSERT_TRUE(fork.ok());
  EXPECT_EQ(fork->items, 2);
  Turn(Ask("Else", fork->id), "Ok");
  EXPECT_THAT(Texts(id), ElementsAre("Hi", "Yo", "More", "No"));
  EXPECT_THAT(Texts(fork->id), ElementsAre("Hi", "Yo", "Else", "Ok"));
  EXPECT_THAT(engine.forks(), ElementsAre(std::pair(engine.requests()[0].timeline, engine.requests()[2].timeline)));
}

TEST_F(SessionTableTest, WarmUpPrefillsAndCanBeContinued) {
  TurnSpec warm = Ask("Hi");
  warm.input.clear();
  warm.instructions = "Be kind.";
  warm.warm_up = true;
  const std::string first = table.StartTurn(me, warm, sink)->response_id;
  EXPECT_EQ(engine.last().max_tokens, 0);
  EXPECT_EQ(Prompt(engine.last()), "<|im_start|>system\nBe kind.<|im_end|>\n");
  engine.Answer(0, "");
  EXPECT_THAT(sink->lines(), ElementsAre("begun 0", "ended 1 completed"));
  Turn(Ask("Hi", "", first), "Yo");
  EXPECT_EQ(engine.requests()[0].timeline, engine.requests()[1].timeline);
  EXPECT_EQ(Prompt(engine.last()).find(Prompt(engine.requests()[0])), 0U);
}

TEST_F(SessionTableTest, EmptyWarmUpSkipsTheEngine) {
  TurnSpec warm;
  warm.warm_up = true;
  const std::string first = table.StartTurn(me, warm, sink)->response_id;
  EXPECT_EQ(engine.count(), 0U);
  EXPECT_THAT(sink->lines(), ElementsAre("begun 0", "ended 1 completed"));
  Turn(Ask("Hi", "", first), "Yo");
  EXPECT_EQ(engine.count(), 1U);
}

TEST_F(SessionTableTest, ChangedInstructionsRecomputeAndReportIt) {
  const std::string id = NewConversation();
  TurnSpec spec = Ask("Hi", id);
  spec.instructions = "Be kind.";
  Turn(spec, "Yo");
  spec.input[0].text = "More";
  Turn(spec, "No");  // the same instructions: no change
  EXPECT_EQ(engine.requests()[0].timeline, engine.requests()[1].timeline);
  spec.instructions = "Be brief.";
  const std::string changed = Turn(spec, "K");
  EXPECT_NE(Prompt(engine.last()).find("Be brief."), std::string::npos);
  EXPECT_EQ(Prompt(engine.last()).find("Be kind."), std::string::npos);
  EXPECT_EQ(table.GetResponse(me, changed).value()->report.source, CacheSource::kRecomputed);
}

TEST_F(SessionTableTest, RepeatedRequestReattachesAndGeneratesOnce) {
  const std::string id = NewConversation();
  TurnSpec spec = Ask("Hi", id);
  spec.request_key = "k1";
  const std::string first = table.StartTurn(me, spec, sink)->response_id;
  engine.Start(0);
  engine.Say(0, "Y");
  const auto again = std::make_shared<RecordingSink>(9);
  const Result<TurnTicket> ticket = table.StartTurn(me, spec, again);
  ASSERT_TRUE(ticket.ok());
  EXPECT_TRUE(ticket->reattached);
  EXPECT_EQ(ticket->response_id, first);
  engine.Say(0, "o");
  engine.End(0);
  EXPECT_EQ(again->lines(), sink->lines());
  const auto late = std::make_shared<RecordingSink>(9);
  EXPECT_TRUE(table.StartTurn(me, spec, late)->reattached);
  EXPECT_EQ(late->lines(), sink->lines());
  EXPECT_EQ(engine.count(), 1U);
  spec.request_key = "k2";
  EXPECT_FALSE(table.StartTurn(me, spec, sink)->reattached);
  EXPECT_FALSE(table.StartTurn(other, Ask("x"), sink)->reattached);
}

TEST_F(SessionTableTest, UnstoredTurnIsVisibleToItsConnectionOnly) {
  TurnSpec spec = Ask("Hi");
  spec.store = false;
  const std::string first = Turn(spec, "Yo");
  const Caller elsewhere{"me", 99};
  EXPECT_EQ(table.StartTurn(elsewhere, Ask("x", "", first), sink).status().reason(), "previous_response_not_found");
  EXPECT_TRUE(table.StartTurn(me, Ask("x", "", first), sink).ok());
  engine.AnswerLast("k");
  table.DropConnection(7);
  EXPECT_EQ(table.StartTurn(me, Ask("x", "", first), sink).status().reason(), "previous_response_not_found");
}

TEST_F(SessionTableTest, LostConnectionEndsItsPrivateTurns) {
  TurnSpec spec = Ask("Hi");
  spec.store = false;
  ASSERT_TRUE(table.StartTurn(me, spec, sink).ok());
  ASSERT_TRUE(table.StartTurn(me, Ask("Hi"), sink).ok());
  table.DropConnection(7);
  EXPECT_THAT(engine.cancelled(), ElementsAre(engine.requests()[0].turn));
}

TEST_F(SessionTableTest, AnswerContinuesWithoutItsSink) {
  const std::string id = NewConversation();
  ASSERT_TRUE(table.StartTurn(me, Ask("Hi", id), sink).ok());
  engine.Start(0);
  sink.reset();
  engine.Say(0, "Yo");
  engine.End(0);
  EXPECT_THAT(Texts(id), ElementsAre("Hi", "Yo"));
}

TEST_F(SessionTableTest, ListIsNewestFirstInPages) {
  std::vector<std::string> ids;
  for (int i = 0; i < 5; ++i) ids.push_back(NewConversation());
  Result<SessionPage> page = table.ListSessions(me, "", 2);
  ASSERT_THAT(page->sessions, SizeIs(2));
  EXPECT_EQ(page->sessions[0].id, ids[4]);
  EXPECT_TRUE(page->has_more);
  page = table.ListSessions(me, ids[3], 5);
  ASSERT_THAT(page->sessions, SizeIs(3));
  EXPECT_EQ(page->sessions[2].id, ids[0]);
  EXPECT_FALSE(page->has_more);
}

TEST_F(SessionTableTest, DeleteCancelsAndRemoves) {
  const std::string id = NewConversation();
  const std::string first = Turn(Ask("Hi", id), "Yo");
  ASSERT_TRUE(table.StartTurn(me, Ask("More", id), sink).ok());
  ASSERT_TRUE(table.DeleteSession(me, id).ok());
  EXPECT_THAT(engine.cancelled(), SizeIs(1));
  engine.End(1, FinishReason::kCancelled);
  EXPECT_EQ(table.GetSession(me, id).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(table.FindResponse(me, first).code(), StatusCode::kNotFound);
  Turn(Ask("Else"), "k");  // the next turn reports the erased timeline to the engine
  EXPECT_THAT(engine.closed(), ElementsAre(engine.requests()[0].timeline));
}

TEST_F(SessionTableTest, NextTurnRendersAddedItems) {
  const Result<SessionInfo> info =
      table.CreateSession(me, {{"a", "b"}}, {}, {{ChatRole::kSystem, "Be kind."}, {ChatRole::kUser, "One"}});
  ASSERT_TRUE(table.AddItems(me, info->id, {{ChatRole::kAssistant, "Two"}}).ok());
  Turn(Ask("Three", info->id), "Four");
  EXPECT_EQ(Prompt(engine.last()),
            "<|im_start|>system\nBe kind.<|im_end|>\n<|im_start|>user\nOne<|im_end|>\n<|im_start|>assistant\n"
            "Two<|im_end|>\n<|im_start|>user\nThree<|im_end|>\n<|im_start|>assistant\n");
  EXPECT_THAT(Texts(info->id), ElementsAre("Be kind.", "One", "Two", "Three", "Four"));
}

TEST_F(SessionTableTest, SessionWindowIsWithinTheServers) {
  WindowOverrides window;
  window.memory_len = 100;
  window.eviction = Eviction::kToken;
  const Result<SessionInfo> info = table.CreateSession(me, {}, window, {});
  Turn(Ask("Hi", info->id), "Yo");
  EXPECT_EQ(engine.last().window, (RingWindow{4, 100, Eviction::kToken}));
  window.memory_len = 513;
  EXPECT_EQ(table.CreateSession(me, {}, window, {}).status().param(), "ringside.memory_len");
}

TEST_F(SessionTableTest, RequestsCarryTheServersStopIdsAndDefaults) {
  TurnSpec spec = Ask("Hi");
  spec.stop_ids = {5};
  spec.stop_strings = {"END"};
  spec.bad_words = {"no"};
  Turn(spec, "Yo");
  EXPECT_THAT(engine.last().stop_ids, ElementsAre(5, ByteTokenizer::kImEnd));
  EXPECT_THAT(engine.last().stop_strings, ElementsAre("END"));
  EXPECT_THAT(engine.last().sampling.bad_words, ElementsAre(Bytes("no"), Bytes(" no")));
  EXPECT_EQ(engine.last().max_tokens, 512 + 4 - std::ssize(engine.last().tokens)) << "what the window has left";
  spec.ignore_end_of_turn = true;
  spec.max_output_tokens = 3;
  Turn(spec, "Yo");
  EXPECT_THAT(engine.last().stop_ids, ElementsAre(5));
  EXPECT_EQ(engine.last().max_tokens, 3);
}

TEST_F(SessionTableTest, RefusesBadSamplingByName) {
  TurnSpec spec = Ask("Hi");
  spec.sampling.temperature = -1;
  EXPECT_EQ(table.StartTurn(me, spec, sink).status().param(), "temperature");
  spec.sampling.temperature = 1;
  spec.sampling.top_p = 0;
  EXPECT_EQ(table.StartTurn(me, spec, sink).status().param(), "top_p");
  EXPECT_EQ(engine.count(), 0U);
}

TEST(SessionTableMemory, EvictsOldChainsButNotConversations) {
  SessionTableOptions options = TableFixture::Options();
  options.transcript_bytes = 20000;
  TableFixture f(options);
  const Caller me{"me", 1};
  const auto sink = std::make_shared<RecordingSink>();
  std::vector<std::string> chains;
  for (int i = 0; i < 50; ++i) {
    TurnSpec spec;
    spec.input = {{ChatRole::kUser, std::string(450, 'x')}};
    chains.push_back(f.table.StartTurn(me, spec, sink)->response_id);
    f.engine.AnswerLast("Yo");
  }
  const auto known = [&](const std::string& id) { return f.table.FindResponse(me, id).ok(); };
  EXPECT_FALSE(known(chains.front()));
  EXPECT_TRUE(known(chains.back()));
  Status refused;
  std::string kept;
  for (int i = 0; i < 200 && refused.ok(); ++i) {
    const Result<SessionInfo> info = f.table.CreateSession(me, {}, {}, {{ChatRole::kUser, std::string(450, 'x')}});
    refused = info.status();
    if (info.ok()) kept = info->id;
  }
  EXPECT_EQ(refused.code(), StatusCode::kOverloaded);
  EXPECT_TRUE(f.table.GetSession(me, kept).ok());
  EXPECT_EQ(f.table.AddItems(me, kept, {{ChatRole::kUser, "x"}}).status().code(), StatusCode::kOverloaded);
  EXPECT_EQ(f.table.Fork(me, kept, {}).status().code(), StatusCode::kOverloaded);
  for (int i = 0; i < 5; ++i)
    ASSERT_TRUE(f.table.DeleteSession(me, f.table.ListSessions(me, "", 1)->sessions[0].id).ok());
  EXPECT_TRUE(f.table.CreateSession(me, {}, {}, {}).ok());
}

// Requests a turn as soon as one has ended. Blocks meanwhile, which no real sink may do: no client can ask sooner.
class AskingSink final : public EventSink {
 public:
  explicit AskingSink(std::function<Status()> ask) : ask_(std::move(ask)) {}

  const EventNumbers& numbers() const override { return numbers_; }
  void OnReplay(const ResponseCopies&, uint64_t) override {}
  void OnEvent(const TurnEvent& event) override {
    if (event.kind == TurnEvent::Kind::kEnded) asked_ = std::async(std::launch::async, ask_).get();
  }
  uint64_t connection() const override { return 7; }
  const std::optional<Status>& asked() const { return asked_; }

 private:
  std::function<Status()> ask_;
  std::optional<Status> asked_;
  const EventNumbers numbers_;
};

TEST(SessionTableLimits, NextTurnMayStartAfterTheEndEvent) {
  SessionTableOptions options = TableFixture::Options();
  options.max_turns_per_owner = 1;
  TableFixture f(options);
  const Caller me{"me", 7};
  const auto listener = std::make_shared<RecordingSink>(7);
  TurnSpec warm;  // generates nothing: it ends before StartTurn returns
  warm.warm_up = true;
  const auto sink = std::make_shared<AskingSink>([&] { return f.table.StartTurn(me, warm, listener).status(); });
  ASSERT_TRUE(f.table.StartTurn(me, warm, sink).ok());
  ASSERT_TRUE(sink->asked());
  EXPECT_TRUE(sink->asked()->ok()) << sink->asked()->message();
}

TEST_F(SessionTableTest, InputItemsAreTheAnswersContext) {
  const std::string first = Turn(Ask("Hi"), "Yo");
  const std::string second = Turn(Ask("More", "", first), "No");
  EXPECT_THAT(*table.GetInputItems(me, first), SizeIs(1));
  EXPECT_THAT(*table.GetInputItems(me, second), SizeIs(3));
}

// Reading holds a session's lock only briefly: it copies neither texts nor ended answers.
TEST_F(SessionTableTest, SnapshotsShareSessionData) {
  const std::string id = NewConversation();
  const std::string response = Turn(Ask(std::string(400, 'a'), id), "Yo");
  const auto first_text = [](const SharedList<Item>& items) { return std::string_view(items[0].text).data(); };
  EXPECT_EQ(first_text(*table.GetItems(me, id)), first_text(*table.GetItems(me, id)));
  EXPECT_EQ(first_text(*table.GetItems(me, id)), first_text(*table.GetInputItems(me, response)));
  EXPECT_EQ(*table.GetResponse(me, response), *table.GetResponse(me, response));
}

// Only a response that can still change is copied: a reader's copy never changes.
TEST_F(SessionTableTest, ResponseSnapshotIsImmutable) {
  const std::string running = table.StartTurn(me, Ask("Hi"), sink)->response_id;
  engine.Start(0);
  engine.Say(0, "Y");
  const auto early = *table.GetResponse(me, running);
  engine.Say(0, "o");
  engine.End(0);
  EXPECT_EQ(early->text, "Y");
  TurnSpec with_logprobs = Ask("Hi", NewConversation());
  with_logprobs.sampling.logprobs = 1;
  const std::string logged = Turn(with_logprobs, "Yo");
  const auto kept = *table.GetResponse(me, logged);
  with_logprobs.input[0].text = "More";
  Turn(with_logprobs, "No");
  EXPECT_THAT(kept->tokens, SizeIs(3)) << "the end of turn has an entry";
  EXPECT_THAT((*table.GetResponse(me, logged))->tokens, SizeIs(0)) << "only the newest answer has them";
}

}  // namespace
}  // namespace ringside
