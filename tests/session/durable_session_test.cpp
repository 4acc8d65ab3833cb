// State that a restart must preserve.
#include <gmock/gmock.h>
#include <unistd.h>

#include <fstream>

#include "base/refusals/server_overload.h"
#include "tests/session/durable_fixture.h"

namespace ringside {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::IsEmpty;
using ::testing::Not;

TEST_F(DurableSessionTest, RestoresAConversationExactly) {
  const std::string id = NewConversation();
  const std::string first = Turn(Ask("Hi", id), "Yo"), second = Turn(Ask("More", id), "No");
  const auto events = Events(second);
  const SessionInfo before = table->GetSession(me, id).value();
  Restart();
  const SessionInfo after = table->GetSession(me, id).value();
  EXPECT_EQ(after.items, 4);
  EXPECT_EQ(after.tokens, before.tokens);
  EXPECT_EQ(after.recorded, before.recorded);
  EXPECT_EQ(after.created_at, before.created_at);
  EXPECT_THAT(Texts(id), ElementsAre("Hi", "Yo", "More", "No"));
  EXPECT_EQ(Events(second), events);
  EXPECT_THAT(NextPrompt(id), EndsWith("Yo<|im_end|>\n<|im_start|>user\nMore<|im_end|>\n<|im_start|>assistant\nNo"
                                       "<|im_end|>\n<|im_start|>user\n?<|im_end|>\n<|im_start|>assistant\n"));
  EXPECT_EQ(engine->last().owner, id);
  EXPECT_TRUE(engine->last().continues);
}

TEST_F(DurableSessionTest, RestoresLogprobsOfEveryToken) {
  TurnSpec spec = Ask("Hi", NewConversation());
  spec.sampling.logprobs = 1;
  const std::string response = Turn(spec, "Yo");
  const auto events = Events(response);
  const auto tokens = [&] {
    const auto found = table->GetResponse(me, response).value();
    std::string names;
    for (const OutputToken& token : found->tokens) names += tokenizer.TokenName(token.id);
    return names;
  };
  EXPECT_EQ(tokens(), "Yo<|im_end|>");
  Restart();
  EXPECT_EQ(tokens(), "Yo<|im_end|>");
  EXPECT_EQ((*table->GetResponse(me, response))->output_tokens, 3);
  EXPECT_EQ(Events(response), events);
}

TEST_F(DurableSessionTest, FindsAChainByItsResponses) {
  const std::string first = Turn(Ask("Hi"), "Yo");
  Restart();
  const std::string second = Turn(Ask("More", "", first), "No");
  EXPECT_FALSE(engine->last().continues_answer);
  EXPECT_THAT(tokenizer.Decode(engine->last().tokens), testing::HasSubstr("Yo<|im_end|>"));
  Restart();
  EXPECT_THAT(Events(first), Contains("ended 6 completed"));
  EXPECT_THAT(Events(second), Contains("ended 6 completed"));
  EXPECT_TRUE(table->ListSessions(me, "", 10)->sessions.empty());
}

TEST_F(DurableSessionTest, AnswerCutAnywhereEndsWithTheSentText) {
  const std::string answer = "abcd";
  for (size_t said = 0; said <= answer.size(); ++said) {
    const std::string id = NewConversation();
    const std::string response = Start(Ask("Hi", id));
    engine->Start(0);
    engine->Say(0, answer.substr(0, said));
    table->Flush();
    const auto told = Events(response);
    Restart();
    auto events = Events(response);
    ASSERT_THAT(events.back(), EndsWith("incomplete"));
    events.pop_back();
    EXPECT_EQ(events, told);
    const auto found = table->GetResponse(me, response);
    ASSERT_TRUE(found.ok());
    EXPECT_EQ((*found)->incomplete_reason, "interrupted");
    EXPECT_EQ((*found)->text, answer.substr(0, said));
    const auto reread = Events(response);
    Restart();  // the same again
    EXPECT_EQ(Events(response), reread);
    ASSERT_TRUE(table->DeleteSession(me, id).ok());
  }
}

TEST_F(DurableSessionTest, QueuedTurnIsInterruptedWithItsInputKept) {
  const std::string id = NewConversation();
  const std::string response = Start(Ask("Hi", id));
  Restart();
  EXPECT_THAT(Events(response), ElementsAre("begun 0", "ended 2 incomplete"));
  EXPECT_THAT(Texts(id), ElementsAre("Hi"));
}

TEST_F(DurableSessionTest, InterruptedAnswerCanBeContinued) {
  const std::string id = NewConversation();
  Start(Ask("Hi", id));
  engine->Start(0);
  engine->Say(0, "Hel");
  Restart();
  TurnSpec go_on = Ask("", id);
  go_on.input.clear();
  Start(go_on);
  EXPECT_THAT(tokenizer.Decode(engine->last().tokens), EndsWith("<|im_start|>assistant\nHel"));
  EXPECT_TRUE(engine->last().continues_answer) << "a space at its beginning is text";
  engine->AnswerLast("lo");
  table->Flush();
  EXPECT_THAT(Texts(id), ElementsAre("Hi", "Hello"));
  Restart();
  EXPECT_THAT(Texts(id), ElementsAre("Hi", "Hello"));
  EXPECT_THAT(NextPrompt(id), testing::HasSubstr("assistant\nHello<|im_end|>\n<|im_start|>user\n?"));
}

TEST_F(DurableSessionTest, ContinuedAnswerIsOneItemUnderOneId) {
  const std::string id = NewConversation();
  TurnSpec go_on = Ask("", id);
  go_on.input.clear();
  const std::string first = Start(Ask("Hi", id));
  engine->Start(0);
  engine->Say(0, "He");
  Restart();
  const std::string item = table->GetItems(me, id)->back().id;
  const std::string second = Start(go_on);
  engine->Start(0);
  engine->Say(0, "ll");
  Restart();  // cut again, in the middle of the continuation
  EXPECT_THAT(Texts(id), ElementsAre("Hi", "Hell..."));
  const std::string third = Start(go_on);
  engine->AnswerLast("o");
  table->Flush();
  for (int start = 0; start < 2; ++start) {
    EXPECT_THAT(Texts(id), ElementsAre("Hi", "Hello"));
    EXPECT_EQ(table->GetItems(me, id)->back().id, item);
    for (const auto& [response, text] : {std::pair(first, "He"), std::pair(second, "ll"), std::pair(third, "o")}) {
      ASSERT_TRUE(table->GetResponse(me, response).ok());
      EXPECT_EQ((*table->GetResponse(me, response))->text, text);
      EXPECT_EQ((*table->GetResponse(me, response))->item_id, item);
    }
    Restart();
  }
  // One message: one step back removes it whole, with all three responses.
  ASSERT_TRUE(table->Rewind(me, id, 1).ok());
  for (const std::string& response : {first, second, third}) EXPECT_FALSE(table->GetResponse(me, response).ok());
  EXPECT_THAT(NextPrompt(id), testing::HasSubstr("user\nHi<|im_end|>\n<|im_start|>user\n?"));
}

TEST_F(DurableSessionTest, EmptyContinuationLeavesTheAnswerUnchanged) {
  const std::string id = NewConversation();
  TurnSpec go_on = Ask("", id);
  go_on.input.clear();
  Start(Ask("Hi", id));
  engine->Start(0);
  engine->Say(0, "Hel");
  for (int start = 0; start < 3; ++start) {
    Restart();
    EXPECT_THAT(Texts(id), ElementsAre("Hi", "Hel..."));
    Start(go_on);
  }
  EXPECT_THAT(tokenizer.Decode(engine->last().tokens), EndsWith("<|im_start|>assistant\nHel"));
}

TEST_F(DurableSessionTest, RepeatedRequestFindsItsAnswerAfterARestart) {
  const std::string id = NewConversation(), base = Turn(Ask("Base"), "b");
  TurnSpec in_conversation = Ask("Hi", id), new_chain = Ask("Hi"), in_chain = Ask("Hi", "", base);
  for (TurnSpec* spec : {&in_conversation, &new_chain, &in_chain}) {
    spec->request_key = "once";
    const std::string response = Turn(*spec, "Yo");
    for (int i = 0; i < 2; ++i) {
      Restart();
      const auto reader = std::make_shared<RecordingSink>(8);
      const Result<TurnTicket> again = table->StartTurn(me, *spec, reader);
      ASSERT_TRUE(again.ok());
      EXPECT_TRUE(again->reattached);
      EXPECT_EQ(again->response_id, response);
      EXPECT_EQ(reader->text(), "Yo");
      EXPECT_EQ(engine->count(), 0U);
    }
  }
}

TEST_F(DurableSessionTest, ResentRequestFindsItsAnswerAfterARestart) {
  const std::string id = NewConversation(), base = Turn(Ask("Base"), "b");
  TurnSpec in_conversation = Ask("Hi", id), new_chain = Ask("Hi"), in_chain = Ask("Hi", "", base);
  for (TurnSpec* spec : {&in_conversation, &new_chain, &in_chain}) {
    spec->request_key = "digest";
    spec->sending = TurnSpec::Sending::kFirst;
    Start(*spec);
    engine->Start(engine->count() - 1);
    engine->Say(engine->count() - 1, "Yo");
    Restart();  // in mid-answer
    spec->sending = TurnSpec::Sending::kAgain;
    const auto reader = std::make_shared<RecordingSink>(8);
    EXPECT_TRUE(table->StartTurn(me, *spec, reader)->reattached);
    EXPECT_EQ(reader->text(), "Yo");
    EXPECT_EQ(engine->count(), 0U);
  }
}

TEST_F(DurableSessionTest, ChangesBetweenTurnsAreKept) {
  const std::string id = NewConversation();
  Turn(Ask("A", id), "1");
  Turn(Ask("B", id), "2");
  ASSERT_TRUE(table->SetMetadata(me, id, {{"k", "v"}}).ok());
  ASSERT_TRUE(table->Rewind(me, id, 2).ok());
  ASSERT_TRUE(table->AddItems(me, id, {{ChatRole::kUser, "C"}}).ok());
  clock.AdvanceMs(1);
  const std::string fork = table->Fork(me, id, 1)->id;
  Restart();
  EXPECT_THAT(Texts(id), ElementsAre("A", "1", "C"));
  EXPECT_THAT(Texts(fork), ElementsAre("A"));
  EXPECT_EQ(table->GetSession(me, id)->metadata, (Metadata{{"k", "v"}}));
  EXPECT_EQ(table->ListSessions(me, "", 10)->sessions.front().id, fork);
}

TEST_F(DurableSessionTest, DeletedDataStaysDeleted) {
  const std::string id = NewConversation();
  const std::string response = Turn(Ask("Hi", id), "Yo"), chain = Turn(Ask("Hi"), "Yo");
  ASSERT_TRUE(table->DeleteSession(me, id).ok());
  ASSERT_TRUE(table->DeleteResponse(me, chain).ok());
  EXPECT_THAT(engine->erased(), Contains(id));
  EXPECT_EQ(engine->erased().size(), 2U);  // and the chain that is no longer reachable
  Restart();
  EXPECT_EQ(table->GetSession(me, id).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(table->StartTurn(me, Ask("More", "", response), sink).status().reason(), "previous_response_not_found");
  EXPECT_EQ(table->StartTurn(me, Ask("More", "", chain), sink).status().reason(), "previous_response_not_found");
  EXPECT_EQ(table->stats().chains, 0);
}

TEST_F(DurableSessionTest, DeletingARunningResponseKeepsItsMessage) {
  const std::string id = NewConversation();
  const std::string before = Turn(Ask("Hi", id), "Yo"), deleted = Start(Ask("More", id));
  engine->Start(1);
  engine->Say(1, "We");
  ASSERT_TRUE(table->DeleteResponse(me, before).ok());
  ASSERT_TRUE(table->DeleteResponse(me, deleted).ok());
  engine->End(1, FinishReason::kCancelled);
  table->Flush();
  const std::vector<std::string> texts = Texts(id);
  EXPECT_EQ(texts.back(), "We...");
  Restart();
  EXPECT_EQ(Texts(id), texts);
  EXPECT_EQ(Events(deleted).size(), 1U);  // only the error
}

TEST_F(DurableSessionTest, RefusedTurnLeavesNoTrace) {
  const std::string id = NewConversation();
  engine->Refuse(Overloaded("no"));
  EXPECT_EQ(table->StartTurn(me, Ask("Hi", id), sink).status().code(), StatusCode::kOverloaded);
  EXPECT_EQ(table->StartTurn(me, Ask("Hi"), sink).status().code(), StatusCode::kOverloaded);
  Restart();
  EXPECT_THAT(Texts(id), IsEmpty());
  EXPECT_EQ(table->stats().chains, 0);
  EXPECT_THAT(sink->lines(), IsEmpty());
}

TEST_F(DurableSessionTest, TurnRefusedForItsWaitIsNotWritten) {
  const std::string id = NewConversation();
  table->Flush();
  const auto entries = journal->stats().entries;
  engine->Overload(ServerOverload{.wait_s = 4, .retry_after_s = 7}.ToStatus());
  EXPECT_TRUE(ReadServerOverload(table->StartTurn(me, Ask("Hi", id), sink).status()));
  EXPECT_TRUE(ReadServerOverload(table->StartTurn(me, Ask("Hi"), sink).status()));
  table->Flush();
  EXPECT_EQ(journal->stats().entries, entries);
  engine->Overload(Status::Ok());
  Turn(Ask("Hi", id), "Yo");
  EXPECT_EQ(engine->last().known_tokens, 0);
  const auto known = std::ssize(engine->last().tokens);
  Turn(Ask("And?", id), "Yo");
  EXPECT_GE(engine->last().known_tokens, known) << "with the answer";
  EXPECT_LT(engine->last().known_tokens, std::ssize(engine->last().tokens));
}

TEST_F(DurableSessionTest, UnstoredDataIsNotOnDisk) {
  TurnSpec spec = Ask("KANARIENVOGEL");
  spec.store = false;
  const std::string unstored = Turn(spec, "zwitscher");
  TurnSpec more = Ask("Public", "", Turn(Ask("Hi"), "Yo"));
  more.store = false;
  Turn(more, "PRIVATGERAEUSCH");
  Close();
  for (const auto& file : std::filesystem::recursive_directory_iterator(path)) {
    if (!file.is_regular_file()) continue;
    std::ifstream in(file.path(), std::ios::binary);
    const std::string bytes((std::istreambuf_iterator<char>(in)), {});
    EXPECT_EQ(bytes.find("KANARIENVOGEL"), std::string::npos) << file.path();
    EXPECT_EQ(bytes.find("PRIVATGERAEUSCH"), std::string::npos) << file.path();
  }
  Open();
  EXPECT_EQ(table->stats().chains, 1);
}

TEST_F(DurableSessionTest, UnstoredChainIsStoredFromItsFirstStoredTurn) {
  TurnSpec spec = Ask("Hi");
  spec.store = false;
  const std::string first = Turn(spec, "Yo");
  const std::string second = Turn(Ask("More", "", first), "No");
  Restart();
  Turn(Ask("Again", "", second), "Yes");
  EXPECT_THAT(tokenizer.Decode(engine->last().tokens), testing::HasSubstr("assistant\nYo<|im_end|>"));
  EXPECT_EQ(Events(first).size(), 1U);  // not found: it was never stored
}

TEST_F(DurableSessionTest, NoDeltaIsSentBeforeItsRecordIsDurable) {
  class Checking final : public EventSink {
   public:
    Checking(Journal& journal, std::string key) : journal_(journal), key_(std::move(key)) {}
    const EventNumbers& numbers() const override { return numbers_; }
    void OnReplay(const ResponseCopies&, uint64_t) override {}
    void OnEvent(const TurnEvent& event) override {
      if (event.kind != TurnEvent::Kind::kText) return;
      ++deltas;
      int64_t records = 0;
      const Result<JournalTranscript> transcript = journal_.Read(key_);
      for (const JournalRecord& record : transcript->records) {
        records += record.type == static_cast<uint8_t>(RecordType::kTokens) ? 1 : 0;
      }
      ahead = ahead || records < deltas;
    }
    uint64_t connection() const override { return 7; }
    int64_t deltas = 0;
    bool ahead = false;

   private:
    Journal& journal_;
    const std::string key_;
    const EventNumbers numbers_;
  };
  const std::string id = NewConversation();
  const auto checking = std::make_shared<Checking>(*journal, id);
  ASSERT_TRUE(table->StartTurn(me, Ask("Hi", id), checking).ok());
  engine->Answer(0, "abcdefgh");
  table->Flush();
  EXPECT_EQ(checking->deltas, 8);
  EXPECT_FALSE(checking->ahead);
}

TEST_F(DurableSessionTest, TurnDurabilityRetractsSentTextAfterACrash) {
  options.durability = Durability::kTurn;
  Restart();
  const std::string id = NewConversation();
  const std::string response = Start(Ask("Hi", id));
  table->Flush();
  engine->Start(0);
  table->Flush();
  engine->Say(0, "ab");
  EXPECT_EQ(sink->text(), "ab");  // immediately
  const uint64_t epoch = Resume({id, {}, {}, {}})->reply().epoch;
  Restart();
  EXPECT_THAT(Events(response).back(), "ended 4 incomplete");
  EXPECT_EQ(Resume({id, epoch, 4, {}})->reply().replay, ResumeReply::Replay::kNone);
  EXPECT_GT(Resume({id, {}, {}, {}})->reply().epoch, epoch);
  const std::string whole = Turn(Ask("Go", id), "cd");
  Restart();
  EXPECT_THAT(Events(whole), Contains("text 5 d"));
}

TEST_F(DurableSessionTest, EventNumbersSurviveARestartAndAttachRaisesTheEpoch) {
  const std::string id = NewConversation();
  Turn(Ask("Hi", id), "abc");  // numbers 0..10
  const auto first = Resume({id, {}, 4, {}});
  EXPECT_THAT(first->lines(), ElementsAre("resumed events", "text 5 b", "text 6 c", "ended 7 completed"));
  const uint64_t epoch = first->reply().epoch;
  Restart();
  const auto second = Resume({id, epoch, 4, {}});
  EXPECT_THAT(second->lines(), ElementsAre("resumed events", "text 5 b", "text 6 c", "ended 7 completed"));
  EXPECT_EQ(second->reply().epoch, epoch + 1);
  EXPECT_EQ(Resume({id, epoch + 9, 4, {}})->reply().replay, ResumeReply::Replay::kNone);  // an epoch that was never
                                                                                          // announced
}

TEST_F(DurableSessionTest, ClientWithADifferentHistoryIsToldSo) {
  const std::string id = NewConversation();
  Turn(Ask("Hi", id), "abc");
  const JournalPosition known = table->GetSession(me, id)->recorded;
  Turn(Ask("More", id), "def");
  Resume({id, {}, {}, known});
  EXPECT_TRUE(status.ok());
  JournalPosition other = known;
  other.chain.low ^= 1;
  const auto refused = Resume({id, {}, {}, other});
  EXPECT_EQ(status.reason(), "history_diverged");
  EXPECT_THAT(refused->lines(), IsEmpty());
  JournalPosition later = known;
  later.seq += 1000;
  Resume({id, {}, {}, later});
  EXPECT_EQ(status.reason(), "history_diverged");
}

TEST_F(DurableSessionTest, SupersededConnectionCannotChangeTheSession) {
  const std::string id = NewConversation();
  Turn(Ask("Hi", id), "abc");
  const auto old = Resume({id, {}, {}, {}}, 7);
  const auto fresh = Resume({id, {}, {}, {}}, 8);
  EXPECT_THAT(old->lines(), Contains("taken over"));
  EXPECT_EQ(table->StartTurn(me, Ask("More", id), sink).status().reason(), "superseded");
  EXPECT_EQ(table->Rewind(me, id, 0).status().reason(), "superseded");
  EXPECT_TRUE(table->StartTurn({"me", 8}, Ask("More", id), sink).ok());
  engine->AnswerLast("x");
  table->Flush();
  const auto back = Resume({id, {}, {}, {}}, 7);  // it may take over again
  EXPECT_TRUE(table->StartTurn(me, Ask("More", id), sink).ok());
}

TEST_F(DurableSessionTest, RetokenizesTextOfOtherTokenizers) {
  const std::string id = NewConversation();
  Turn(Ask("Hi", id), "Yo");
  Close();
  chat = std::move(ChatTemplate::Named("llama3").value());
  Open();
  const std::string prompt = NextPrompt(id);
  EXPECT_THAT(prompt, Not(testing::HasSubstr("<|im_start|>")));
  EXPECT_THAT(prompt, testing::HasSubstr("Yo"));
  engine->AnswerLast("ok");
  table->Flush();
  Restart();  // and only once
  EXPECT_THAT(NextPrompt(id), testing::StartsWith(prompt + "ok"));
}

TEST_F(DurableSessionTest, DamagedSessionIsReportedAndOthersAreUnaffected) {
  const std::string id = NewConversation(), other = NewConversation();
  Turn(Ask("Hi", id), "Yo");
  JournalEntry nonsense;
  nonsense.session = id;
  nonsense.records = {{static_cast<uint8_t>(RecordType::kEnd), "nonsense"}};
  ASSERT_TRUE(journal->Append(nonsense, nullptr).ok());
  Restart();
  EXPECT_EQ(table->GetSession(me, id).status().reason(), "session_damaged");
  EXPECT_EQ(table->StartTurn(me, Ask("Hi", id), sink).status().reason(), "session_damaged");
  EXPECT_TRUE(table->GetSession(me, other).ok());
  EXPECT_EQ(table->ListSessions(me, "", 10)->sessions.size(), 2U);
  EXPECT_TRUE(table->DeleteSession(me, id).ok());
}

TEST_F(DurableSessionTest, ItemChangesSurviveARestart) {
  const std::string id = NewConversation();
  Turn(Ask("One", id), "Yo");
  const std::string second = Turn(Ask("Two", id), "So");
  const std::string third = Turn(Ask("Three", id), "Oh");
  const SharedList<Item> items = *table->GetItems(me, id);
  ASSERT_TRUE(table->DeleteItem(me, id, items[1].id).ok());
  ASSERT_TRUE(table->AddItems(me, id, {{ChatRole::kUser, "Half"}}, items[0].id).ok());
  ASSERT_TRUE(table->DeleteItem(me, id, items[5].id).ok());
  ASSERT_TRUE(table->DeleteItem(me, id, items[2].id).ok());
  const auto expect_changed = [&] {
    EXPECT_THAT(Texts(id), ElementsAre("One", "Half", "So", "Three"));
    EXPECT_EQ(table->GetInputItems(me, second)->size(), 2u);
    EXPECT_EQ(table->GetResponse(me, third).status().code(), StatusCode::kNotFound);
    EXPECT_TRUE(table->VerifySession(id)->ok);
  };
  expect_changed();
  Restart();
  expect_changed();
  EXPECT_THAT(NextPrompt(id),
              ::testing::StartsWith("<|im_start|>user\nOne<|im_end|>\n<|im_start|>user\nHalf<|im_end|>\n"
                                    "<|im_start|>assistant\nSo<|im_end|>\n<|im_start|>user\nThree"));
}

}  // namespace
}  // namespace ringside
