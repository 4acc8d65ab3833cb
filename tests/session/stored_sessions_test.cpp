// Sessions in memory and in the journal: unloading, expiry, behaviour on a full disk, exports and imports.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <atomic>

#include "base/bytes.h"
#include "base/limits.h"
#include "tests/session/durable_fixture.h"

namespace ringside {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class StoredSessionsTest : public DurableSessionTest {};

TEST_F(StoredSessionsTest, BoundsMemoryWithoutLosingSessions) {
  options.transcript_bytes = 100'000;
  options.memory_len = 1500;
  Restart();
  std::vector<std::pair<std::string, std::string>> turns;  // conversation, response
  for (int i = 0; i < 100; ++i) {
    const std::string id = NewConversation();
    turns.emplace_back(id, Turn(Ask(std::string(1000, 'q'), id), "answer " + std::to_string(i)));
  }
  const SessionTableStats stats = table->stats();
  EXPECT_GT(stats.unloads, 0U);
  EXPECT_LT(stats.loaded, 60);
  EXPECT_EQ(stats.conversations, 100);
  table->Sweep();
  EXPECT_THAT(engine->parked(), testing::Not(IsEmpty()));  // their caches are saved, not dropped
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(Texts(turns[static_cast<size_t>(i)].first)[1], "answer " + std::to_string(i));
    EXPECT_EQ(Events(turns[static_cast<size_t>(i)].second).back().substr(0, 3), "end");
  }
}

TEST_F(StoredSessionsTest, AttachedOrAnsweringSessionsStayInMemory) {
  options.transcript_bytes = 20'000;
  options.memory_len = 1500;
  Restart();
  const std::string watched = NewConversation(), running = NewConversation();
  const auto watcher = Resume({watched, {}, {}, {}});
  Start(Ask("Hi", running));
  for (int i = 0; i < 30; ++i) Turn(Ask(std::string(1000, 'q'), NewConversation()), "a");
  Turn(Ask("Hi", watched), "heard");
  EXPECT_EQ(watcher->text(), "heard");
  engine->Answer(0, "still here");
  table->Flush();
  EXPECT_EQ(Texts(running)[1], "still here");
}

// As shown in a list.
std::vector<std::string> Listed(const SessionTable& table, const Caller& caller) {
  std::vector<std::string> lines;
  const auto page = table.ListSessions(caller, "", 100);
  if (!page.ok()) return {page.status().ToString()};
  for (const SessionInfo& info : page->sessions) {
    std::string line = info.id + fmt::format(" made {} used {} items {} tokens {} position {} pinned {} evicted {}",
                                             info.created_at, info.updated_at, info.items, info.tokens, info.position,
                                             info.pinned, info.tokens_evicted);
    line += fmt::format(" window {} {} {} epoch {} durable {} seq {} chain {}", info.memory_len, info.session_len,
                        static_cast<int>(info.eviction), info.epoch, info.durable, info.recorded.seq,
                        info.recorded.chain.Hex());
    for (const auto& [key, value] : info.metadata) line += " " + key + "=" + value;
    lines.push_back(std::move(line));
  }
  return lines;
}

TEST_F(StoredSessionsTest, ListingLoadsNoSession) {
  for (int i = 0; i < 30; ++i) {
    clock.AdvanceMs(1000);
    const WindowOverrides window{.memory_len = i % 2 == 0 ? std::optional<int64_t>(100 + i) : std::nullopt};
    const std::string id = table->CreateSession(me, {{"n", std::to_string(i)}}, window, {})->id;
    if (i % 3 == 0) continue;  // never used
    engine->Evict(i, 1);
    Turn(Ask("Hi", id), std::string(static_cast<size_t>(i), 'x'));
    if (i % 3 == 1) Resume({id, {}, {}, {}});
    if (i % 5 == 0) CHECK(table->SetMetadata(me, id, {{"changed", "yes"}}).ok());
    if (i % 5 == 1) CHECK(table->AddItems(me, id, {{ChatRole::kUser, "More"}}).ok());
    if (i % 5 == 2) CHECK(table->Rewind(me, id, 1).ok());
  }
  const auto before = Listed(*table, me);
  ASSERT_EQ(before.size(), 30U);
  Restart();
  EXPECT_EQ(Listed(*table, me), before);
  EXPECT_EQ(table->stats().loads, 0U);
  EXPECT_EQ(table->stats().loaded, 0);
}

TEST_F(StoredSessionsTest, ListingUpdatesStaleSummaries) {
  const std::string id = NewConversation();
  clock.AdvanceMs(1000);
  const std::string old = NewConversation();
  clock.AdvanceMs(1000);
  NewConversation();
  Turn(Ask("Hi", old), "Yo");
  Restart();
  JournalEntry behind;  // a process that was killed before it wrote the summary
  behind.session = id;
  behind.records = {EncodeMetadata({{"k", "v"}})};
  ASSERT_TRUE(journal->Append(behind, nullptr).ok());
  SessionSummary whole = DecodeSummary(journal->Summary(old)->summary).value();
  JournalEntry older;  // as an older version wrote it
  older.session = old;
  ByteWriter out;
  out.String(whole.owner);
  out.Double(whole.created_at);
  out.Double(whole.updated_at);
  older.summary = out.Take();
  ASSERT_TRUE(journal->Append(older, nullptr).ok());
  Restart();
  const auto listed = Listed(*table, me);
  ASSERT_EQ(listed.size(), 3U);
  EXPECT_THAT(listed[2], HasSubstr(" k=v"));
  EXPECT_THAT(listed[1], HasSubstr(" items 2 "));
  EXPECT_EQ(table->stats().loads, 2U);
  Restart();
  EXPECT_EQ(Listed(*table, me), listed);
  EXPECT_EQ(table->stats().loads, 0U);
}

TEST_F(StoredSessionsTest, ListsEvictedSessionsWithoutReadingThem) {
  options.transcript_bytes = 20'000;
  options.memory_len = 1500;
  Restart();
  for (int i = 0; i < 30; ++i) Turn(Ask(std::string(1000, 'q'), NewConversation()), "a");
  const uint64_t loads = table->stats().loads;
  EXPECT_GT(table->stats().unloads, 0U);
  EXPECT_EQ(Listed(*table, me).size(), 30U);
  EXPECT_EQ(table->stats().loads, loads);
}

TEST_F(StoredSessionsTest, DeletesSessionsUnusedForTooLong) {
  options.session_ttl_s = 1000;
  Restart();
  const std::string old = NewConversation(), used = NewConversation();
  clock.AdvanceMs(600'000);
  Turn(Ask("Hi", used), "Yo");
  clock.AdvanceMs(600'000);
  table->Sweep();
  EXPECT_EQ(table->GetSession(me, old).status().code(), StatusCode::kNotFound);
  EXPECT_TRUE(table->GetSession(me, used).ok());
  Restart();
  EXPECT_EQ(table->GetSession(me, old).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(table->stats().conversations, 1);
  EXPECT_EQ(journal->stats().sessions, 1);
}

TEST_F(StoredSessionsTest, OlderRecordsCountAsUnusedSinceTheFirstStart) {
  options.session_ttl_s = 1000;
  const std::string id = NewConversation();
  SessionSummary summary = DecodeSummary(journal->Summary(id)->summary).value();
  std::string bytes = Encode(summary);
  JournalEntry older;
  older.session = id;
  older.summary = bytes.substr(0, bytes.size() - sizeof(double));
  ASSERT_TRUE(journal->Append(older, nullptr).ok());
  Restart();
  table->Sweep();
  EXPECT_EQ(table->stats().conversations, 1);
  clock.AdvanceMs(1'100'000);
  table->Sweep();
  EXPECT_EQ(table->stats().conversations, 0);
}

TEST_F(StoredSessionsTest, UseAfterTheSummaryKeepsASessionFresh) {
  options.session_ttl_s = 1000;
  Restart();
  const std::string id = NewConversation();
  clock.AdvanceMs(900'000);
  JournalEntry behind;  // a process that was killed before it wrote the summary
  behind.session = id;
  behind.records = {EncodeMetadata({{"k", "v"}})};
  ASSERT_TRUE(journal->Append(behind, nullptr).ok());
  clock.AdvanceMs(200'000);
  Restart();
  table->Sweep();
  EXPECT_EQ(table->stats().conversations, 1);
}

// The wall clock can be set without time passing; the steady clock restarts at 0 on reboot.
class MachineClock final : public Clock {
 public:
  int64_t MonotonicNs() const override { return up_s * 1'000'000'000; }
  double WallSeconds() const override { return static_cast<double>(wall_s); }
  void Advance(int64_t seconds) { up_s += seconds, wall_s += seconds; }
  std::atomic<int64_t> up_s{0}, wall_s{1'700'000'000};  // read by the journal's thread
};

class WallClockTest : public StoredSessionsTest {
 protected:
  void SetUp() override {
    StoredSessionsTest::SetUp();
    options.session_ttl_s = 1000;
    Boot();
  }
  /// Reboots the machine.
  void Boot() {
    Close();
    machine.up_s = 0;
    JournalOptions log;
    log.path = path;
    log.clock = &machine;
    journal = std::move(Journal::Open(log).value());
    engine = std::make_unique<ScriptedEngine>(tokenizer.first_id());
    table = std::make_unique<SessionTable>(options, tokenizer, *chat, *engine, journal.get(), machine);
    ASSERT_TRUE(table->Open().ok());
  }
  TurnTicket Send(TurnSpec::Sending sending, const std::string& conversation) {
    TurnSpec spec = Ask("Go on", conversation);
    spec.request_key = "digest";
    spec.sending = sending;
    return table->StartTurn(me, spec, nullptr).value();
  }
  MachineClock machine;
  static constexpr int64_t kYear_s = 365 * 86400;
};

TEST_F(WallClockTest, ClockJumpDeletesNothingWhileRunning) {
  const std::string id = NewConversation();
  for (const int64_t jump_s : {10 * kYear_s, -20 * kYear_s, 3000 * int64_t{1}, -86'400 * int64_t{1}}) {
    machine.wall_s += jump_s;
    machine.Advance(200);
    table->Sweep();
    EXPECT_TRUE(table->GetSession(me, id).ok()) << jump_s;
  }
  machine.Advance(300);
  table->Sweep();
  EXPECT_FALSE(table->GetSession(me, id).ok());
  EXPECT_EQ(table->stats().expired, 1U);
}

TEST_F(WallClockTest, ClockJumpAtAStartDeletesNothing) {
  const std::string id = NewConversation();
  for (const int64_t jump_s : {10 * kYear_s, -20 * kYear_s, 3000 * int64_t{1}}) {
    machine.Advance(200);
    machine.wall_s += jump_s;
    Boot();
    table->Sweep();
    EXPECT_TRUE(table->GetSession(me, id).ok()) << jump_s;
  }
  // Server uptime accumulates over all of these starts.
  machine.Advance(500);
  table->Sweep();
  EXPECT_FALSE(table->GetSession(me, id).ok());
}

TEST_F(WallClockTest, DataCreatedUnderAWrongClockAgesNormally) {
  machine.wall_s += 10 * kYear_s;
  const std::string id = NewConversation();
  machine.wall_s -= 10 * kYear_s;
  Boot();
  machine.Advance(1100);
  table->Sweep();
  EXPECT_FALSE(table->GetSession(me, id).ok());
}

TEST_F(WallClockTest, ClockJumpKeepsRepeatedRequestsRecognised) {
  using Sending = TurnSpec::Sending;
  const std::string id = NewConversation();
  const std::string first = Send(Sending::kFirst, id).response_id;
  engine->AnswerLast("Yo");
  table->Flush();
  for (const int64_t jump_s : {10 * kYear_s, -20 * kYear_s}) {
    machine.wall_s += jump_s;
    EXPECT_EQ(Send(Sending::kAgain, id).response_id, first) << jump_s;
    Boot();
    EXPECT_EQ(Send(Sending::kAgain, id).response_id, first) << jump_s << ", at a start";
  }
  machine.Advance(limits::kRepeatSeconds + 1);
  EXPECT_NE(Send(Sending::kAgain, id).response_id, first);
}

TEST_F(StoredSessionsTest, FullDiskRefusesOnlyNewData) {
  const std::string id = NewConversation();
  const std::string response = Turn(Ask("Hi", id), "Yo");
  journal_options.min_free_bytes = INT64_MAX;
  Restart();
  EXPECT_EQ(table->StartTurn(me, Ask("More", id), sink).status().reason(), "storage_full");
  EXPECT_EQ(table->StartTurn(me, Ask("More"), sink).status().reason(), "storage_full");
  EXPECT_EQ(table->CreateSession(me, {}, {}, {}).status().reason(), "storage_full");
  EXPECT_EQ(table->Rewind(me, id, 0).status().reason(), "storage_full");
  EXPECT_EQ(engine->count(), 0U);
  EXPECT_THAT(Texts(id), ElementsAre("Hi", "Yo"));
  EXPECT_EQ(Events(response).back(), "ended 6 completed");
  EXPECT_EQ(Resume({id, {}, 4, {}})->text(), "o");
  EXPECT_TRUE(table->DeleteSession(me, id).ok());
  journal_options.min_free_bytes = 0;
  Restart();
  EXPECT_EQ(table->stats().conversations, 0);
  EXPECT_EQ(table->stats().chains, 0);
}

TEST_F(StoredSessionsTest, EveryOwnerHasLimits) {
  options.max_turns_per_owner = 2;
  options.max_sessions_per_owner = 3;
  Restart();
  Start(Ask("A"));
  Start(Ask("B"));
  EXPECT_EQ(table->StartTurn(me, Ask("C"), sink).status().reason(), "rate_limit_exceeded");
  EXPECT_TRUE(table->StartTurn({"another", 9}, Ask("C"), sink).ok());
  engine->Answer(0, "a");
  table->Flush();
  EXPECT_TRUE(table->StartTurn(me, Ask("C"), sink).ok());
  for (int i = 0; i < 3; ++i) NewConversation();
  EXPECT_EQ(table->CreateSession(me, {}, {}, {}).status().reason(), "rate_limit_exceeded");
  EXPECT_TRUE(table->CreateSession({"another", 9}, {}, {}, {}).ok());
}

TEST_F(StoredSessionsTest, LimitsDiskBytesPerOwner) {
  options.max_stored_bytes_per_owner = 100'000;
  Restart();
  const auto add = [&](const Caller& caller, const std::string& id) {
    return table->AddItems(caller, id, {{ChatRole::kUser, std::string(30'000, 'x')}}).status();
  };
  const std::string first = NewConversation(), second = NewConversation();
  EXPECT_TRUE(add(me, first).ok());
  // Rewound records are still stored, and count.
  EXPECT_TRUE(table->Rewind(me, first, 0).ok());
  EXPECT_TRUE(add(me, first).ok());
  Turn(Ask("Hi"), "Yo");
  EXPECT_TRUE(add(me, second).ok());
  EXPECT_TRUE(add(me, second).ok());
  const auto refused = [&](const Status& status) {
    EXPECT_NE(status.message().find("--max-stored-mb-per-owner"), std::string::npos) << status.ToString();
    return status.reason();
  };
  for (int start = 0; start < 2; ++start, Restart()) {
    EXPECT_EQ(refused(add(me, first)), "rate_limit_exceeded");
    EXPECT_EQ(refused(table->StartTurn(me, Ask("Hi"), sink).status()), "rate_limit_exceeded");
    EXPECT_EQ(refused(table->CreateSession(me, {}, {}, {}).status()), "rate_limit_exceeded");
    EXPECT_TRUE(table->CreateSession({"another", 9}, {}, {}, {}).ok());
    EXPECT_THAT(Texts(second), testing::SizeIs(2));  // it is loaded into memory
  }
  // Deletion frees space, whether the conversation is in memory or not.
  EXPECT_TRUE(table->DeleteSession(me, first).ok());
  EXPECT_TRUE(add(me, second).ok());
  EXPECT_TRUE(add(me, second).ok());
  EXPECT_EQ(add(me, second).reason(), "rate_limit_exceeded");
  EXPECT_TRUE(table->DeleteSession(me, second).ok());
  const std::string third = NewConversation();
  EXPECT_TRUE(add(me, third).ok());
  Restart();
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(add(me, third).ok()) << i;
  EXPECT_EQ(add(me, third).reason(), "rate_limit_exceeded");
}

TEST_F(StoredSessionsTest, EvictsLeastRecentlyUsedChains) {
  options.max_chains_per_owner = 3;
  Restart();
  const auto known = [&](const std::string& id) { return table->GetResponse(me, id).ok(); };
  const std::string conversation = NewConversation();
  Turn(Ask("Hi", conversation), "Yo");
  const std::string a = Turn(Ask("a"), "A"), b = Turn(Ask("b"), "B"), c = Turn(Ask("c"), "C");
  ASSERT_TRUE(known(a));  // which counts as a use
  const std::string d = Turn(Ask("d"), "D");
  EXPECT_FALSE(known(b));
  EXPECT_TRUE(known(a) && known(c) && known(d));
  Restart();  // only their ids are loaded
  const std::string e = Turn(Ask("e"), "E");
  EXPECT_EQ(table->stats().chains, 3);
  EXPECT_TRUE(known(e));
  EXPECT_FALSE(known(b));
  table->Flush();
  table->Flush();  // the journal no longer holds the chain
  // Running chains, other owners' chains and all conversations are kept.
  const std::string f = Start(Ask("f")), g = Start(Ask("g")), h = Start(Ask("h")), i = Start(Ask("i"));
  for (const std::string& id : {f, g, h, i}) EXPECT_TRUE(known(id));
  EXPECT_EQ(table->stats().chains, 4);
  ASSERT_TRUE(table->StartTurn({"another", 9}, Ask("?"), sink).ok());
  EXPECT_EQ(table->stats().chains, 5);
  EXPECT_THAT(Texts(conversation), ElementsAre("Hi", "Yo"));
  for (size_t turn = 1; turn < 6; ++turn) engine->Answer(turn, "Yo");
  table->Flush();
  table->Flush();  // and the journal has released what it has delivered
  Turn(Ask("j"), "J");
  EXPECT_EQ(table->stats().chains, 4);
  EXPECT_FALSE(known(f) || known(g));
  EXPECT_TRUE(known(h) && known(i));
}

TEST_F(StoredSessionsTest, OwnersMayHaveTheirOwnLimits) {
  options.max_chains_per_owner = 1;
  options.max_stored_bytes_per_owner = 1;
  options.limits_of = [this](const std::string& owner, OwnerLimits limits) {
    if (owner == me.principal) limits.chains = 2, limits.stored_bytes = 0;
    return limits;
  };
  Restart();
  const std::string a = Turn(Ask("a"), "A"), b = Turn(Ask("b"), "B"), c = Turn(Ask("c"), "C");
  EXPECT_FALSE(table->GetResponse(me, a).ok());
  EXPECT_TRUE(table->GetResponse(me, b).ok() && table->GetResponse(me, c).ok());
  const Caller other{"another", 9};
  ASSERT_TRUE(table->CreateSession(other, {}, {}, {}).ok());
  table->Flush();
  EXPECT_EQ(table->CreateSession(other, {}, {}, {}).status().reason(), "rate_limit_exceeded");
}

TEST_F(StoredSessionsTest, BackgroundAnswerNeedsNoClient) {
  options.max_detached_tokens = 10;
  Restart();
  TurnSpec spec = Ask("Hi");
  spec.background = true;
  sink.reset();
  const std::string response = Start(spec);
  engine->Answer(0, "0123456789abcdef");
  table->Flush();
  EXPECT_THAT(engine->cancelled(), IsEmpty());
  EXPECT_EQ(table->GetResponse(me, response).value()->text, "0123456789abcdef");
}

TEST_F(StoredSessionsTest, AnswerWithoutListenersEnds) {
  options.max_detached_tokens = 10;
  Restart();
  const std::string id = NewConversation();
  const std::string response = Start(Ask("Hi", id));
  engine->Start(0);
  engine->Say(0, "0123456789abcdef");
  table->Flush();
  EXPECT_THAT(engine->cancelled(), IsEmpty());  // it has a listener
  sink.reset();
  engine->Say(0, "0123456789");
  table->Flush();
  EXPECT_THAT(engine->cancelled(), IsEmpty());
  engine->Say(0, "a");
  table->Flush();
  EXPECT_THAT(engine->cancelled(), ElementsAre(engine->requests()[0].turn));
  engine->End(0, FinishReason::kCancelled);
  table->Flush();
  const auto reason = [&] {
    const auto found = table->GetResponse(me, response);
    return found.ok() ? (*found)->incomplete_reason : found.status().message();
  };
  EXPECT_EQ(reason(), "detached");
  Restart();
  EXPECT_EQ(reason(), "detached");
}

TEST_F(StoredSessionsTest, ExportRoundTrips) {
  const std::string id = table->CreateSession(me, {{"k", "v"}}, {.memory_len = 100}, {})->id;
  TurnSpec spec = Ask("Hi", id);
  spec.instructions = "Be brief.";
  Turn(spec, "Yo");
  const std::string bytes = table->ExportSession(me, id).value();
  EXPECT_EQ(table->ExportSession({"another", 9}, id).status().code(), StatusCode::kNotFound);
  const SessionInfo in = table->ImportSession({"another", 9}, bytes).value();
  EXPECT_NE(in.id, id);
  EXPECT_EQ(in.metadata, (Metadata{{"k", "v"}}));
  EXPECT_EQ(in.memory_len, 100);
  Start(Ask("?", id));
  const auto tokens = engine->last().tokens;
  ASSERT_TRUE(table->StartTurn({"another", 9}, Ask("?", in.id), sink).ok());
  EXPECT_EQ(engine->last().tokens, tokens);
  Restart();
  EXPECT_EQ(table->GetSession({"another", 9}, in.id)->items, 3);
}

TEST_F(StoredSessionsTest, RefusesADamagedExport) {
  const std::string id = NewConversation();
  Turn(Ask("Hi", id), "Yo");
  const std::string bytes = table->ExportSession(me, id).value();
  for (size_t i = 0; i < bytes.size(); ++i) {
    EXPECT_EQ(table->ImportSession(me, std::string_view(bytes).substr(0, i)).status().code(),
              StatusCode::kInvalidArgument);
    std::string flipped = bytes;
    flipped[i] = static_cast<char>(flipped[i] ^ (1 << (i % 8)));
    EXPECT_EQ(table->ImportSession(me, flipped).status().code(), StatusCode::kInvalidArgument) << i;
  }
  EXPECT_EQ(table->stats().conversations, 1);
}

TEST_F(StoredSessionsTest, VerifyReadsTheWholeHistory) {
  const std::string id = NewConversation();
  Turn(Ask("Hi", id), "Yo");
  const SessionVerdict verdict = table->VerifySession(id).value();
  EXPECT_TRUE(verdict.ok);
  EXPECT_EQ(verdict.records, table->GetSession(me, id)->recorded.seq);
  EXPECT_EQ(table->VerifySession("conv_0000000000000000000000").status().code(), StatusCode::kNotFound);
}

TEST(EndRecordTest, KeepsWaitTimesAndReadsOlderRecords) {
  EndRecord record;
  record.times = {.queue_ms = 1, .slot_ms = 2, .prefill_ms = 3, .others_ms = 4, .decode_ms = 5};
  record.completed_at = 6;
  record.ended_s = 7;
  record.reason = FinishReason::kRepetition;
  const std::string payload = Encode(record).payload;
  const EndRecord read = DecodeEnd(payload).value();
  EXPECT_EQ(read.reason, FinishReason::kRepetition);
  EXPECT_EQ(read.times.slot_ms, 2);
  EXPECT_EQ(read.times.others_ms, 4);
  EXPECT_EQ(read.ended_s, 7);
  // Older versions wrote none of these.
  const auto without = [&](size_t doubles) {
    return DecodeEnd(std::string_view(payload).substr(0, payload.size() - doubles * sizeof(double))).value();
  };
  EXPECT_EQ(without(1).times.others_ms, 4);
  EXPECT_EQ(without(1).ended_s, 0);
  const EndRecord older = without(3);
  EXPECT_EQ(older.times.prefill_ms, 3);
  EXPECT_EQ(older.times.slot_ms, 0);
  EXPECT_EQ(older.completed_at, 6);
}

TEST(EndRecordTest, KeepsDraftsIfThereWereAny) {
  const EndRecord plain{.reason = FinishReason::kLength};
  EndRecord drafted = plain;
  drafted.drafts = {.steps = 3, .drafted = 20, .accepted = 17};
  const EndRecord read = DecodeEnd(Encode(drafted).payload).value();
  EXPECT_EQ(read.drafts.steps, 3);
  EXPECT_EQ(read.drafts.drafted, 20);
  EXPECT_EQ(read.drafts.accepted, 17);
  EXPECT_EQ(DecodeEnd(Encode(plain).payload)->drafts.steps, 0);
  EXPECT_LT(Encode(plain).payload.size(), Encode(drafted).payload.size());
}

TEST(EndRecordTest, KeepsReplayedTokensOfRecurrentModelsOnly) {
  CacheReport report{.tokens_reused = 4, .tokens_computed = 9};
  const std::string started = EncodeStarted(report).payload, ended = Encode(EndRecord{.report = report}).payload;
  report.tokens_replayed = 5;
  EXPECT_EQ(DecodeStarted(EncodeStarted(report).payload)->tokens_replayed, 5);
  EXPECT_EQ(DecodeStarted(started)->tokens_replayed, 0);
  EXPECT_EQ(EncodeStarted(report).payload.size(), started.size() + 1);
  EndRecord end{.report = report, .reasoning_tokens = 3};
  end.times.reasoning_ms = 7;
  EXPECT_EQ(DecodeEnd(Encode(end).payload)->report.tokens_replayed, 5);
  EXPECT_EQ(DecodeEnd(Encode(end).payload)->reasoning_tokens, 3);
  EXPECT_EQ(DecodeEnd(Encode(EndRecord{.report = report}).payload)->report.tokens_replayed, 5);
  EXPECT_EQ(DecodeEnd(ended)->report.tokens_replayed, 0);
}

}  // namespace
}  // namespace ringside
