// Stored sessions under another vocabulary, another template or smaller limits: they continue from their text, and
// every affected turn reports the change.
#include <gmock/gmock.h>

#include "base/bytes.h"
#include "tests/session/durable_fixture.h"

namespace ringside {
namespace {

using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr TokenId kFar = 1000;

class ChangedModelTest : public DurableSessionTest {
 protected:
  /// Simulates another model, whose ids begin at `first_id`.
  void RestartWith(TokenId first_id) {
    Close();
    tokenizer = ByteTokenizer(first_id);
    options.end_of_turn = {tokenizer.im_end()};
    Open();
  }
  void RestartWithTemplate(std::string_view source) {
    Close();
    chat = std::move(ChatTemplate::Recognise(source, {}).value());
    Open();
  }
  std::shared_ptr<const Response> Got(const std::string& response) {
    const auto found = table->GetResponse(me, response);
    if (!found.ok()) ADD_FAILURE() << found.status().ToString();
    return found.ok() ? *found : std::make_shared<const Response>();
  }
  std::string Prompt() { return tokenizer.Decode(engine->last().tokens); }
  /// Runs and answers the next turn of a conversation; returns its response.
  std::shared_ptr<const Response> Next(const std::string& conversation) {
    return Got(Turn(Ask("?", conversation), "a"));
  }

  static constexpr std::string_view kChatMlWithoutNewline =
      "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>'}}"
      "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";
};

TEST_F(ChangedModelTest, SessionsContinueWithOtherVocabularySizes) {
  for (const auto& [from, to] : {std::pair<TokenId, TokenId>{kFar, 0}, {0, kFar}}) {
    RestartWith(from);
    const std::string id = NewConversation();
    TurnSpec first = Ask("Hi", id), chained = Ask("Ho");
    first.instructions = "Be kind.";
    first.sampling.logprobs = 1;
    const std::string with_logprobs = Turn(first, "Yo"), chain = Turn(chained, "No");
    EXPECT_FALSE(Got(with_logprobs)->retokenised);
    const std::vector<std::string> told = Events(with_logprobs);

    RestartWith(to);
    EXPECT_THAT(Texts(id), ElementsAre("Hi", "Yo"));
    EXPECT_EQ(Events(with_logprobs), told);
    EXPECT_THAT(Got(with_logprobs)->tokens, ::testing::IsEmpty());  // ids that this vocabulary cannot decode
    const std::string response = Turn(Ask("More", id), "Yes");
    EXPECT_EQ(
        Prompt(),
        "<|im_start|>system\nBe kind.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\nYo<|im_end|>\n"
        "<|im_start|>user\nMore<|im_end|>\n<|im_start|>assistant\n");
    EXPECT_TRUE(engine->last().continues);
    EXPECT_TRUE(Got(response)->retokenised);
    EXPECT_EQ(Got(response)->report.source, CacheSource::kRecomputed);
    EXPECT_FALSE(Next(id)->retokenised);
    EXPECT_TRUE(Got(Turn(Ask("More", "", chain), "Yes"))->retokenised);

    RestartWith(to);
    EXPECT_TRUE(Got(response)->retokenised);
    EXPECT_FALSE(Next(id)->retokenised);
    EXPECT_THAT(Texts(id), ElementsAre("Hi", "Yo", "More", "Yes", "?", "a", "?", "a"));
  }
}

TEST_F(ChangedModelTest, TruncatedAnswerReadsTheSameUnderAnyModel) {
  for (const auto& [from, to] : {std::pair<TokenId, TokenId>{kFar, 0}, {0, kFar}}) {
    RestartWith(from);
    const std::string id = NewConversation();
    const std::string response = Start(Ask("Hi", id));
    engine->Start(0);
    engine->Say(0, "Hel");
    engine->HoldBack(0, "lo");
    table->Flush();
    std::vector<std::string> told;
    for (const TokenId now : {to, from, to}) {
      RestartWith(now);
      EXPECT_THAT(Texts(id), ElementsAre("Hi", "Hel..."));
      EXPECT_EQ(Got(response)->incomplete_reason, "interrupted");
      if (told.empty()) told = Events(response);
      EXPECT_EQ(Events(response), told);
    }
    EXPECT_TRUE(Next(id)->retokenised);
    EXPECT_THAT(Prompt(), HasSubstr("assistant\nHel<|im_end|>\n<|im_start|>user\n?"));
  }
}

TEST_F(ChangedModelTest, FormerModelReusesItsIdsIfNoTurnRan) {
  const std::string id = NewConversation();
  Start(Ask("Hi", id));
  engine->Start(0);
  engine->SayAtOnce(0, "Yo");  // an id that no tokenizer would produce for this text
  engine->End(0);
  table->Flush();
  RestartWith(kFar);
  EXPECT_THAT(Texts(id), ElementsAre("Hi", "Yo"));
  const std::string fork = table->Fork(me, id, std::nullopt)->id;
  RestartWith(0);
  EXPECT_FALSE(Next(id)->retokenised);
  EXPECT_THAT(Prompt(), HasSubstr("assistant\nx<|im_end|>"));
  EXPECT_TRUE(Next(fork)->retokenised);
  EXPECT_THAT(Prompt(), HasSubstr("assistant\nYo<|im_end|>"));
}

TEST_F(ChangedModelTest, ChangesBetweenTurnsUseTheNewTokenizer) {
  RestartWith(kFar);
  const std::string id = NewConversation();
  Turn(Ask("A", id), "1");
  Turn(Ask("B", id), "2");
  RestartWith(0);
  ASSERT_TRUE(table->Rewind(me, id, 2).ok());
  ASSERT_TRUE(table->AddItems(me, id, {{ChatRole::kUser, "C"}}).ok());
  RestartWith(0);
  EXPECT_THAT(Texts(id), ElementsAre("A", "1", "C"));
  EXPECT_TRUE(Next(id)->retokenised);
  EXPECT_THAT(Prompt(), StartsWith("<|im_start|>user\nA<|im_end|>\n<|im_start|>assistant\n1<|im_end|>\n"));
  RestartWith(kFar);
  EXPECT_TRUE(Next(id)->retokenised);
}

TEST_F(ChangedModelTest, RefusedTurnLeavesTheReportForTheNext) {
  const std::string id = NewConversation();
  Turn(Ask("A", id), "1");
  RestartWith(kFar);
  const std::string failed = Start(Ask("B", id));
  engine->End(0, FinishReason::kError, Overloaded("full"));
  table->Flush();
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(Got(failed)->retokenised);
    RestartWith(kFar);
  }
  EXPECT_TRUE(Next(id)->retokenised);
}

// Earlier messages are not new input, whatever their role.
TEST_F(ChangedModelTest, HistoryLongerThanTheWindowContinues) {
  const std::string id = NewConversation();
  TurnSpec spec = Ask(std::string(1000, 'q'), id);
  spec.truncates = spec.warm_up = true;
  Start(spec);
  engine->Answer(0, "");
  table->Flush();
  RestartWith(kFar);
  EXPECT_TRUE(Next(id)->retokenised);
}

TEST_F(ChangedModelTest, DifferentTemplateOfTheSameFamilyIsAChange) {
  const std::string id = NewConversation();
  Turn(Ask("A", id), "1");
  RestartWithTemplate(kChatMlWithoutNewline);
  EXPECT_TRUE(Next(id)->retokenised);
  EXPECT_EQ(Prompt(),
            "<|im_start|>user\nA<|im_end|><|im_start|>assistant\n1<|im_end|><|im_start|>user\n?<|im_end|>"
            "<|im_start|>assistant\n");
  RestartWithTemplate(kChatMlWithoutNewline);
  EXPECT_FALSE(Next(id)->retokenised);
}

TEST_F(ChangedModelTest, SmallerLimitsApplyAndStoredLimitsAreKept) {
  Result<SessionInfo> made = table->CreateSession(me, {}, {.memory_len = 300, .session_len = 1500}, {});
  const std::string id = made->id, plain = NewConversation();
  TurnSpec spec = Ask("Hi", id);
  spec.instructions = "Be kind, be brief, be quick.";
  EXPECT_FALSE(Got(Turn(spec, "Yo"))->clamped.any());
  const int64_t pinned = engine->last().window.pinned;
  spec.conversation = plain;
  Turn(spec, "Yo");
  options.memory_len = 200;
  options.session_len = 1000;
  options.pinned_max = 16;
  ASSERT_GT(pinned, options.pinned_max);
  Restart();
  const std::string clamped = Turn(Ask("More", id), "Yes");
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(Got(clamped)->clamped.memory_len, 200);
    EXPECT_EQ(Got(clamped)->clamped.session_len, 1000);
    EXPECT_EQ(Got(clamped)->clamped.pinned, 16);
    Restart();
  }
  Next(id);
  EXPECT_EQ(engine->last().window, (RingWindow{16, 200, Eviction::kTurn}));
  EXPECT_EQ(engine->last().session_len, 1000);
  const SessionInfo info = table->GetSession(me, id).value();
  EXPECT_EQ(info.memory_len, 200);
  EXPECT_EQ(info.session_len, 1000);
  EXPECT_EQ(info.pinned, 16);
  const ClampedLimits of_plain = Next(plain)->clamped;
  EXPECT_FALSE(of_plain.memory_len || of_plain.session_len);  // it set no limits
  EXPECT_EQ(of_plain.pinned, 16);

  options = TableFixture::Options();
  Restart();
  EXPECT_FALSE(Next(id)->clamped.any());
  EXPECT_EQ(engine->last().window, (RingWindow{pinned, 300, Eviction::kTurn}));
  EXPECT_EQ(engine->last().session_len, 1500);
  EXPECT_TRUE(Got(clamped)->clamped.any());  // this was clamped at the time
}

TEST_F(ChangedModelTest, ImportsAcrossVocabulariesAndSmallerLimits) {
  Result<SessionInfo> made = table->CreateSession(me, {}, {.memory_len = 300}, {});
  TurnSpec spec = Ask("Hi", made->id);
  spec.instructions = "Be kind, be brief, be quick.";
  Turn(spec, "Yo");
  const std::string exported = table->ExportSession(me, made->id).value();
  for (const TokenId first_id : {TokenId{0}, kFar}) {
    options.memory_len = 200;
    options.pinned_max = 16;
    RestartWith(first_id);
    const Result<SessionInfo> info = table->ImportSession(me, exported);
    ASSERT_TRUE(info.ok()) << info.status().ToString();
    EXPECT_EQ(info->memory_len, 200);
    RestartWith(first_id);
    const auto response = Next(info->id);
    EXPECT_EQ(response->retokenised, first_id != 0);
    EXPECT_EQ(response->clamped.memory_len, 200);
    EXPECT_THAT(Prompt(), EndsWith("Hi<|im_end|>\n<|im_start|>assistant\nYo<|im_end|>\n<|im_start|>user\n?<|im_end|>\n"
                                   "<|im_start|>assistant\n"));
    const std::string again = table->ExportSession(me, info->id).value();
    options.memory_len = 512;
    RestartWith(0);
    const Result<SessionInfo> back = table->ImportSession(me, again);
    ASSERT_TRUE(back.ok());
    EXPECT_EQ(back->memory_len, 300);
  }
}

TEST_F(ChangedModelTest, StoredIdsOutsideTheVocabularyAreDamage) {
  const auto stored_with = [&](int64_t id) {
    RestartWith(kFar);
    const std::string session = NewConversation();
    Start(Ask("Hi", session));
    engine->Start(0);
    engine->Say(0, "Yo");
    ByteWriter tokens;
    tokens.String("!");
    tokens.Bool(false);
    tokens.Unsigned(1);
    tokens.Signed(id);
    EXPECT_TRUE(
        journal
            ->Append({.session = session, .records = {{static_cast<uint8_t>(RecordType::kTokens), tokens.Take()}}},
                     [](const Status&, const JournalPosition&) {})
            .ok());
    journal->Flush();
    return session;
  };
  for (const int64_t id : {int64_t{-1}, INT64_MIN, int64_t{1} << 31, (int64_t{1} << 32) + 5, INT64_MAX}) {
    for (const TokenId reader : {kFar, TokenId{0}}) {
      const std::string session = stored_with(id);
      RestartWith(reader);
      EXPECT_EQ(table->GetSession(me, session).status().reason(), "session_damaged") << id;
    }
  }
  const std::string beyond = stored_with(ByteTokenizer(kFar).vocab_size());
  RestartWith(kFar);
  EXPECT_EQ(table->GetSession(me, beyond).status().reason(), "session_damaged");
  RestartWith(0);  // the size of an absent vocabulary is unknown
  EXPECT_TRUE(table->GetSession(me, beyond).ok());
}

// A model may have more rows of logits than its tokenizer has tokens.
TEST_F(ChangedModelTest, KeepsAnswersWithIdsThatPadTheVocabulary) {
  options.vocab = tokenizer.vocab_size() + 2;
  Restart();
  const TokenId last = static_cast<TokenId>(options.vocab) - 1;
  const std::string id = NewConversation(), response = Start(Ask("Hi", id));
  engine->Start(0);
  engine->SayNothing(0, last);
  engine->Say(0, "Yo");
  engine->SayNothing(0, last);
  engine->End(0);
  table->Flush();
  const Result<std::string> exported = table->ExportSession(me, id);
  ASSERT_TRUE(exported.ok()) << exported.status().ToString();
  EXPECT_TRUE(table->ImportSession(me, *exported).ok());

  Restart();
  EXPECT_THAT(Texts(id), ElementsAre("Hi", "Yo"));
  Turn(Ask("?", id), "a");
  EXPECT_EQ(std::ranges::count(engine->last().tokens, last), 2);
  EXPECT_THAT(Texts(id), ElementsAre("Hi", "Yo", "?", "a"));

  options.vocab -= 1;
  Restart();
  EXPECT_EQ(table->GetSession(me, id).status().reason(), "session_damaged");
}

TEST_F(ChangedModelTest, StoredTurnWithoutAnAnswerIsDamage) {
  const std::string session = NewConversation();
  TurnRecord turn;
  turn.response_id = "resp_1";
  turn.patch.tokens = {'a'};
  const JournalEntry entry{.session = session, .records = {Encode(turn), Encode(InterruptedRecord{})}};
  ASSERT_TRUE(journal->Append(entry, [](const Status&, const JournalPosition&) {}).ok());
  journal->Flush();
  Restart();
  EXPECT_EQ(table->GetSession(me, session).status().reason(), "session_damaged");
}

// A session stored before the template became part of the codec name.
TEST_F(ChangedModelTest, RecognisesShorterCodecNames) {
  EXPECT_TRUE(SameCodec("v.t", "v.t"));
  EXPECT_TRUE(SameCodec("v", "v.t"));
  for (const char* stored : {"v.u", "w", "v.", "v.t.x", "", "v.t2"}) EXPECT_FALSE(SameCodec(stored, "v.t")) << stored;
}

}  // namespace
}  // namespace ringside
