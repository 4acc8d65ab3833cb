// Limits per turn and per owner: length of input and answer, time, memory.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "session/table/session_table.h"
#include "session/tokens_by_owner.h"
#include "tests/session/durable_fixture.h"
#include "tests/session/recording_sink.h"
#include "tests/session/scripted_engine.h"

namespace ringside {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

SessionTableOptions Limited() {
  SessionTableOptions options = TableFixture::Options();
  options.max_output_tokens_limit = 100;
  options.max_input_tokens = 200;
  options.turn_timeout_s = 60;
  options.max_bytes_per_owner = 64 << 10;
  return options;
}

class TurnLimits : public ::testing::Test, protected TableFixture {
 protected:
  TurnLimits() : TableFixture(Limited()) {}
  static TurnSpec Ask(size_t letters) {
    TurnSpec spec;
    spec.input = {{ChatRole::kUser, std::string(letters, 'a')}};
    return spec;
  }
  std::string IncompleteReason(const std::string& id) { return table.GetResponse(me, id).value()->incomplete_reason; }

  const Caller me{"me", 7};
  std::shared_ptr<RecordingSink> sink = std::make_shared<RecordingSink>(7);
};

TEST(RequestLength, IsTheLongestInputEveryRequestMayHave) {
  SessionTableOptions options = TableFixture::Options();
  EXPECT_EQ(options.request_len(), 512 + 4);
  options.pinned_max = 1;
  EXPECT_EQ(options.request_len(), 512 + 1);
  options.session_len = 300;
  EXPECT_EQ(options.request_len(), 300);
  options.max_input_tokens = 200;
  EXPECT_EQ(options.request_len(), 200);
  options.encoder = EncoderTokens{1, 0};
  options.pinned_max = 64;
  EXPECT_EQ(options.request_len(), 64) << "what the encoder reads";
}

TEST_F(TurnLimits, LimitsAnswerLength) {
  TurnSpec spec = Ask(10);
  spec.max_output_tokens = 101;
  const Status refused = table.StartTurn(me, spec, sink).status();
  EXPECT_EQ(refused.param(), "max_output_tokens");
  EXPECT_EQ(refused.message(), "max_output_tokens may be at most 100 (--max-output-tokens-limit).");
  spec.max_output_tokens = 100;
  EXPECT_TRUE(table.StartTurn(me, spec, sink).ok());
}

TEST_F(TurnLimits, LimitsAnswersWithoutTheirOwnLimit) {
  ASSERT_TRUE(table.StartTurn(me, Ask(10), sink).ok());
  EXPECT_EQ(engine.last().max_tokens, 100) << "less than the window leaves";
}

// A limit in the request disables the guard.
TEST(RepetitionGuardOption, AppliesToAnswersWithoutALimit) {
  SessionTableOptions options = TableFixture::Options();
  options.ends_repetition = true;
  TableFixture guarded(options);
  const Caller me{"me", 7};
  TurnSpec spec;
  spec.input = {{ChatRole::kUser, "a"}};
  ASSERT_TRUE(guarded.table.StartTurn(me, spec, std::make_shared<RecordingSink>(7)).ok());
  EXPECT_TRUE(guarded.engine.last().ends_repetition);
  spec.max_output_tokens = 100;
  ASSERT_TRUE(guarded.table.StartTurn(me, spec, std::make_shared<RecordingSink>(7)).ok());
  EXPECT_FALSE(guarded.engine.last().ends_repetition);
}

TEST_F(TurnLimits, LimitsInputEvenIfTruncated) {
  TurnSpec spec = Ask(200);
  for (const bool truncates : {false, true}) {
    spec.truncates = truncates;
    const Status refused = table.StartTurn(me, spec, sink).status();
    EXPECT_EQ(refused.reason(), "context_length_exceeded");
    EXPECT_THAT(refused.message(), HasSubstr("length is 200 tokens."));
    EXPECT_THAT(refused.message(), HasSubstr("resulted in at least 201 tokens. See --max-input-tokens."));
  }
  EXPECT_TRUE(table.StartTurn(me, Ask(150), sink).ok());
}

TEST_F(TurnLimits, CountsTokensToComputeFromAnySource) {
  const std::string id = table.CreateSession(me, {}, {}, {})->id;
  TurnSpec spec = Ask(10);
  spec.conversation = id;
  ASSERT_TRUE(table.StartTurn(me, spec, sink).ok());
  engine.AnswerLast("Yo");
  spec.instructions = std::string(300, 'i');
  EXPECT_THAT(table.StartTurn(me, spec, sink).status().message(), HasSubstr("See --max-input-tokens."))
      << "changed instructions are rendered, too";
  spec.instructions = std::string(100, 'i');
  EXPECT_TRUE(table.StartTurn(me, spec, sink).ok());
  engine.AnswerLast("Yo");
  ASSERT_TRUE(table.AddItems(me, id, {{ChatRole::kAssistant, std::string(300, 'b')}}).ok());
  EXPECT_EQ(table.StartTurn(me, spec, sink).status().reason(), "context_length_exceeded");
}

// 1 MiB of text costs the tokenizer no more time than the input limit allows.
TEST_F(TurnLimits, TokenizesNoMoreThanATurnMayHave) {
  EXPECT_EQ(table.StartTurn(me, Ask(1 << 20), sink).status().reason(), "context_length_exceeded");
  EXPECT_LE(tokenizer.tokens_made(), 2 * 200);
}

TEST_F(TurnLimits, LimitsTurnDuration) {
  const std::string first = table.StartTurn(me, Ask(10), sink)->response_id;
  clock.AdvanceMs(30'000);
  const std::string second = table.StartTurn(me, Ask(10), sink)->response_id;
  table.Sweep();
  EXPECT_THAT(engine.cancelled(), ElementsAre());
  clock.AdvanceMs(31'000);
  table.Sweep();
  table.Sweep();
  EXPECT_THAT(engine.cancelled(), ElementsAre(engine.requests()[0].turn));
  engine.End(0, FinishReason::kCancelled);
  EXPECT_EQ(IncompleteReason(first), "turn_timeout");
  engine.Answer(1, "Yo");
  clock.AdvanceMs(61'000);
  table.Sweep();
  EXPECT_THAT(engine.cancelled(), ElementsAre(engine.requests()[0].turn)) << "what has ended is left alone";
  EXPECT_EQ(IncompleteReason(second), "");
}

TEST_F(TurnLimits, LimitsMemoryPerOwner) {
  Status refused;
  for (int turns = 0; turns < 1000 && refused.ok(); ++turns) {
    refused = table.StartTurn(me, Ask(100), sink).status();
    if (refused.ok()) engine.AnswerLast("Yo");
  }
  EXPECT_EQ(refused.code(), StatusCode::kOverloaded);
  EXPECT_EQ(refused.reason(), "rate_limit_exceeded");
  Status created;  // takes less than a turn
  for (int sessions = 0; sessions < 10 && created.ok(); ++sessions) {
    created = table.CreateSession(me, {}, {}, {}).status();
  }
  EXPECT_EQ(created.reason(), "rate_limit_exceeded");
  EXPECT_TRUE(table.StartTurn({"another", 9}, Ask(100), sink).ok());
}

TEST_F(TurnLimits, ReservesRequestMemoryInAdvance) {
  TurnSpec spec = Ask(10);
  spec.max_output_tokens = 96;
  spec.sampling.logprobs = 20;  // about 190 bytes per token: 18 KiB per answer
  int running = 0;
  Status refused;
  for (; running < 100 && refused.ok(); running += refused.ok() ? 1 : 0) {
    refused = table.StartTurn(me, spec, sink).status();
  }
  EXPECT_EQ(refused.reason(), "rate_limit_exceeded");
  EXPECT_EQ(running, 3) << "of 64 KiB";
  spec.sampling.logprobs = -1;
  EXPECT_TRUE(table.StartTurn(me, spec, sink).ok()) << "there is room for one without";
  for (size_t i = 0; i < 4; ++i) engine.End(i, FinishReason::kCancelled);
  spec.sampling.logprobs = 20;
  EXPECT_TRUE(table.StartTurn(me, spec, sink).ok()) << "given back";
}

TEST_F(TurnLimits, ApiStateCountsTowardsTheOwner) {
  Result<HeldBytes> most = table.Hold(me, 60 << 10);
  ASSERT_TRUE(most.ok());
  EXPECT_EQ(table.Hold(me, 60 << 10).status().reason(), "rate_limit_exceeded");
  EXPECT_TRUE(table.Hold({"another", 9}, 60 << 10).ok());
  TurnSpec spec = Ask(150);
  spec.input.resize(10, spec.input.front());
  EXPECT_EQ(table.StartTurn(me, spec, sink).status().reason(), "rate_limit_exceeded");
  const HeldBytes moved = std::move(*most);
  EXPECT_EQ(table.Hold(me, 60 << 10).status().reason(), "rate_limit_exceeded") << "it is still held";
  most = HeldBytes();
  EXPECT_FALSE(table.Hold(me, 60 << 10).ok());
}

TEST(TokenBucketTest, RefillsOverAMinuteAndMayBeOverdrawn) {
  constexpr int64_t kSecondNs = 1'000'000'000;
  TokenBucket bucket;
  EXPECT_EQ(bucket.WaitMs(60, 0), 0);
  bucket.Draw(59, 0);
  EXPECT_EQ(bucket.WaitMs(60, 0), 0) << "one is left";
  bucket.Draw(121, 0);  // 120 beyond the minute's budget
  const int64_t wait_ms = bucket.WaitMs(60, 0);
  EXPECT_GT(wait_ms, 120'000);
  EXPECT_LE(wait_ms, 122'000);
  EXPECT_GT(bucket.WaitMs(60, 119 * kSecondNs), 0);
  EXPECT_EQ(bucket.WaitMs(60, wait_ms * (kSecondNs / 1000)), 0) << "it waited as long as it was told";
  EXPECT_EQ(bucket.WaitMs(0, 0), 0) << "no limit";
  bucket.Draw(1'000'000, 0);
  EXPECT_EQ(bucket.WaitMs(60, 0), 0) << "what was drawn without a limit does not count";
}

TEST_F(DurableSessionTest, TokensPerMinuteCountComputedTokensAndRefill) {
  OwnerLimits limits{.tokens_per_minute = 60};
  options.limits_of = [this, limits](const std::string& owner, const OwnerLimits& usual) {
    return owner == me.principal ? limits : usual;
  };
  Restart();
  EXPECT_EQ(table->TokensWaitMs(me), 0);
  Turn(Ask("Hello", NewConversation()), std::string(100, 'y'));  // 100 tokens and a few more
  const int64_t wait_ms = table->TokensWaitMs(me);
  EXPECT_GT(wait_ms, 40'000);
  const auto sink = std::make_shared<RecordingSink>(7);
  const Status refused = table->StartTurn(me, Ask("And now?", NewConversation()), sink).status();
  EXPECT_EQ(refused.code(), StatusCode::kOverloaded);
  EXPECT_EQ(refused.reason(), "rate_limit_exceeded");
  EXPECT_THAT(refused.message(), HasSubstr("you may have 60"));
  EXPECT_EQ(table->TokensWaitMs({"another", 9}), 0);
  clock.AdvanceMs(wait_ms);
  EXPECT_TRUE(table->StartTurn(me, Ask("And now?", NewConversation()), sink).ok());
}

// The engine counts computed rows: those of every beam, but none of a cached prompt.
TEST_F(DurableSessionTest, ChargesOwnersForComputedTokens) {
  options.max_tokens_per_owner = 1'000;
  Restart();
  const auto left = [&] { return table->TokensOf(me).left; };
  EXPECT_EQ(left(), 1'000);
  const auto end = [&](FinishReason reason, int64_t rows) {
    TurnEnd ended;
    ended.reason = reason;
    ended.output = Bytes(reason == FinishReason::kLength ? "Yo" : "");
    ended.rows_computed = rows;
    const std::shared_ptr<TokenSink> sink = engine->last().sink;
    engine->Start(engine->count() - 1);
    if (reason == FinishReason::kLength) sink->OnTokens({{OutputToken{'Y', 0, {}}, OutputToken{'o', 0, {}}}, "Yo"});
    sink->OnEnd(ended);
  };
  Start(Ask("Hello", NewConversation()));
  const auto prompt = static_cast<int64_t>(engine->last().tokens.size());
  end(FinishReason::kLength, prompt + 1);
  EXPECT_EQ(left(), 1'000 - prompt - 2) << "both tokens, though the last is not computed yet";
  Start(Ask("Hello", NewConversation()));
  end(FinishReason::kLength, prompt + 4 * 10);
  EXPECT_EQ(left(), 1'000 - 2 * prompt - 42) << "four beams of ten steps, whatever the answer's length";
  Start(Ask("Hello", NewConversation()));
  end(FinishReason::kCancelled, 3);
  EXPECT_EQ(left(), 1'000 - 2 * prompt - 45) << "it was cancelled within its prompt";
  table->Flush();
}

// Every verb's writes count towards the owner's limit: beyond it only requests that free space are allowed.
TEST_F(DurableSessionTest, NoVerbExceedsTheOwnersDiskQuota) {
  const std::string id = NewConversation(), full = NewConversation();
  Turn(Ask("Hello", id), "Yo");
  options.max_stored_bytes_per_owner = 1;
  Restart();
  const auto written = [&] { return journal->Last(id)->bytes; };
  const auto before = written();
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(table->SetMetadata(me, id, {{"a", std::to_string(i)}}).status().reason(), "rate_limit_exceeded");
    EXPECT_EQ(table->AddItems(me, id, {{ChatRole::kUser, "more"}}).status().reason(), "rate_limit_exceeded");
    EXPECT_EQ(table->Fork(me, id, {}).status().reason(), "rate_limit_exceeded");
    EXPECT_EQ(table->CreateSession(me, {}, {}, {}).status().reason(), "rate_limit_exceeded");
    const auto resumed = Resume({.session = id});
    EXPECT_TRUE(status.ok()) << "reading goes on";
    EXPECT_FALSE(resumed->lines().empty());
  }
  EXPECT_EQ(written(), before);
  EXPECT_TRUE(table->SetMetadata({"another", 9}, id, {}).status().code() == StatusCode::kNotFound);
  EXPECT_TRUE(table->DeleteSession(me, full).ok());
}

TEST_F(DurableSessionTest, NoOpRewindWritesNothing) {
  const std::string id = NewConversation();
  Turn(Ask("Hello", id), "Yo");
  const auto before = journal->Last(id)->bytes;
  for (int i = 0; i < 10; ++i) EXPECT_EQ(table->Rewind(me, id, 2).value(), 2);
  EXPECT_EQ(journal->Last(id)->bytes, before);
  EXPECT_EQ(table->Rewind(me, id, 0).value(), 0);
  EXPECT_GT(journal->Last(id)->bytes, before);
}

TEST_F(DurableSessionTest, MetadataCountsAsTheOwnersMemory) {
  options.max_bytes_per_owner = 64 << 10;
  Restart();
  const Metadata large = [] {
    Metadata metadata;
    for (int i = 0; i < 16; ++i) metadata.emplace_back(std::string(60, 'k') + std::to_string(i), std::string(512, 'v'));
    return metadata;
  }();
  for (int i = 0; i < 40; ++i) ASSERT_TRUE(table->CreateSession(me, large, {}, {}).ok());
  EXPECT_GT(table->stats().unloads, 0U) << "9 KiB each";
}

TEST_F(DurableSessionTest, OwnersMayOverrideLimits) {
  options.max_sessions_per_owner = 1;
  options.limits_of = [this](const std::string& owner, OwnerLimits usual) {
    if (owner == me.principal) usual.sessions = 3;
    return usual;
  };
  Restart();
  const Caller another{"another", 9};
  EXPECT_TRUE(table->CreateSession(another, {}, {}, {}).ok());
  EXPECT_EQ(table->CreateSession(another, {}, {}, {}).status().reason(), "rate_limit_exceeded");
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(table->CreateSession(me, {}, {}, {}).ok());
  EXPECT_EQ(table->CreateSession(me, {}, {}, {}).status().reason(), "rate_limit_exceeded");
}

TEST_F(DurableSessionTest, OwnersIdleConversationsAreEvictedForTheOwnersOthers) {
  options.max_bytes_per_owner = 64 << 10;
  Restart();
  const std::string others = table->CreateSession({"another", 9}, {}, {}, {})->id;
  const std::string first = NewConversation();
  Turn(Ask(std::string(100, 'a'), first), "Yo");
  for (int i = 0; i < 200; ++i) Turn(Ask(std::string(100, 'a'), NewConversation()), "Yo");
  EXPECT_GT(table->stats().unloads, 0u);
  EXPECT_LT(table->stats().loaded, 150);
  EXPECT_THAT(Texts(first), ElementsAre(std::string(100, 'a'), "Yo")) << "read again";
}

}  // namespace
}  // namespace ringside
