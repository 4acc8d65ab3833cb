// Imports are untrusted bytes: a conversation is imported whole or not at all, and later requests on it cannot crash
// the server.
#include <gtest/gtest.h>
#include <xxhash.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/hmac.h"
#include "base/limits.h"
#include "session/ids.h"
#include "session/records.h"
#include "session/table/session_table.h"
#include "tests/held_memory.h"
#include "tests/session/recording_sink.h"
#include "tests/session/scripted_engine.h"

namespace ringside {
namespace {

class HostileImportTest : public ::testing::Test, protected TableFixture {
 protected:
  // A conversation of two turns with a system message, in export format.
  void SetUp() override {
    const std::string id = table.CreateSession(me, {}, {}, {})->id;
    for (const char* text : {"Hi", "More"}) {
      TurnSpec spec;
      spec.conversation = id;
      spec.input = {{ChatRole::kUser, text}};
      spec.instructions = "Be brief.";
      ASSERT_TRUE(table.StartTurn(me, spec, sink).ok());
      engine.AnswerLast("Yo");
    }
    const std::string bytes = table.ExportSession(me, id).value();
    ByteReader in(std::string_view(bytes).substr(kMagic.size()));
    created = DecodeCreated(in.String()).value();
    record = DecodeTimeline(in.String()).value();
  }
  /// An export with the current `created` and `record`, sealed with `key`.
  std::string Forge() const { return Forge(Encode(created).payload, Encode(record).payload); }
  std::string Forge(const std::string& created_bytes, const std::string& timeline_bytes) const {
    ByteWriter out;
    out.String(created_bytes);
    out.String(timeline_bytes);
    std::string bytes = std::string(kMagic) + out.Take();
    ByteWriter check;
    check.Fixed64(XXH3_64bits(bytes.data(), bytes.size()));
    bytes += check.bytes();
    return bytes + HmacSha256(key, bytes);
  }
  Result<SessionInfo> Import() { return table.ImportSession(me, Forge()); }
  Result<TurnTicket> AskAnew(const std::string& conversation, const std::string& instructions) {
    TurnSpec spec;
    spec.conversation = conversation;
    spec.input = {{ChatRole::kUser, "?"}};
    spec.instructions = instructions;
    return table.StartTurn(me, spec, sink);
  }

  static constexpr std::string_view kMagic = "ringside session 2\n";
  const Caller me{"me", 7};
  std::shared_ptr<RecordingSink> sink = std::make_shared<RecordingSink>(7);
  SealKey key = table.options().export_key;
  CreatedRecord created;
  TimelineRecord record;
};

TEST_F(HostileImportTest, RefusesExportsOfOtherServers) {
  key = SealKey::Random();
  EXPECT_EQ(Import().status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(Import().status().reason(), "foreign_export");
  EXPECT_EQ(table.conversations(), 1);
}

TEST_F(HostileImportTest, AcceptsExportsOfOtherServersIfConfigured) {
  key = SealKey::Random();
  SessionTableOptions trusting = Options();
  trusting.accept_foreign_imports = true;
  ScriptedEngine other_engine;
  SessionTable other(trusting, tokenizer, chat, other_engine);
  EXPECT_TRUE(other.ImportSession(me, Forge()).ok());
  record.patch.items[1].token_end = -1;
  EXPECT_EQ(other.ImportSession(me, Forge()).status().code(), StatusCode::kInvalidArgument);  // trust does not disable
                                                                                              // validation
}

TEST_F(HostileImportTest, ServersWithTheSameKeyExchangeConversations) {
  SessionTableOptions sharing = Options();
  sharing.export_key = table.options().export_key;
  ScriptedEngine other_engine;
  SessionTable other(sharing, tokenizer, chat, other_engine);
  const std::string exported = table.ExportSession(me, table.ListSessions(me, "", 1)->sessions[0].id).value();
  EXPECT_TRUE(other.ImportSession(me, exported).ok());
}

TEST_F(HostileImportTest, UnchangedExportIsImportedAndContinues) {
  const Result<SessionInfo> info = Import();
  ASSERT_TRUE(info.ok()) << info.status().ToString();
  EXPECT_TRUE(AskAnew(info->id, "Be long.").ok());
  EXPECT_EQ(tokenizer.Decode(engine.last().tokens).substr(0, 31), "<|im_start|>system\nBe long.<|im");
}

// Its ids would be searched for before the start of the timeline.
TEST_F(HostileImportTest, ItemWithoutIdsCannotBeSampled) {
  for (const size_t from : {size_t{0}, size_t{1}, size_t{3}}) {
    const TimelineRecord sound = record;
    for (size_t i = from; i < record.patch.items.size(); ++i) {
      record.patch.items[i].token_begin = record.patch.items[i].token_end = -1;
    }
    const Result<SessionInfo> info = Import();
    EXPECT_EQ(info.status().code(), StatusCode::kInvalidArgument) << from;
    if (info.ok()) (void)AskAnew(info->id, "Be long.");
    record = sound;
  }
}

TEST_F(HostileImportTest, ItemHasBothBoundsOrNone) {
  Item& last = record.patch.items.back();
  last.sampled = false;
  last.token_end = -1;  // its beginning is still there
  EXPECT_EQ(Import().status().code(), StatusCode::kInvalidArgument);
  last.token_begin = -1;
  EXPECT_TRUE(Import().ok());
  last.token_end = last.token_begin = -7;
  EXPECT_EQ(Import().status().code(), StatusCode::kInvalidArgument);
}

TEST_F(HostileImportTest, RefusesOpenAnswers) {
  record.patch.answer_begin = 0;
  EXPECT_EQ(Import().status().code(), StatusCode::kInvalidArgument);
}

TEST_F(HostileImportTest, MetadataHasTheLimitsOfOrdinaryRequests) {
  const auto refused = [&](Metadata metadata) {
    created.metadata = std::move(metadata);
    const Result<SessionInfo> info = Import();
    return info.status().code() == StatusCode::kInvalidArgument && info.status().param() == "body";
  };
  Metadata seventeen;
  for (int i = 0; i < 17; ++i) seventeen.emplace_back("k" + std::to_string(i), "v");
  EXPECT_TRUE(refused(seventeen));
  EXPECT_TRUE(refused({{std::string(65, 'k'), "v"}}));
  EXPECT_TRUE(refused({{"k", std::string(513, 'v')}}));
  EXPECT_TRUE(refused({{"k", "1"}, {"k", "2"}}));
  EXPECT_TRUE(refused({{"k", "\xff"}}));
  EXPECT_TRUE(refused({{"\xff", "v"}}));
  seventeen.pop_back();
  EXPECT_FALSE(refused(seventeen));
  EXPECT_FALSE(refused({{std::string(64, 'k'), std::string(512, 'v')}}));
}

TEST_F(HostileImportTest, ItemsMustBeAsTheServerCreatesThem) {
  const TimelineRecord sound = record;
  const auto refused = [&](const std::function<void(std::vector<Item>&)>& change) {
    record = sound;
    change(record.patch.items);
    const Result<SessionInfo> info = Import();
    return info.status().code() == StatusCode::kInvalidArgument && info.status().param() == "body";
  };
  EXPECT_TRUE(refused([](auto& items) { items[1].id = items[0].id; }));
  EXPECT_TRUE(refused([](auto& items) { items[0].id = ""; }));
  EXPECT_TRUE(refused([](auto& items) { items[0].id = "msg_1"; }));
  EXPECT_TRUE(refused([](auto& items) { items[0].id.back() = '"'; }));
  EXPECT_TRUE(refused([](auto& items) { items[0].text = "\xed\xa0\x80"; }));
  EXPECT_TRUE(refused([](auto& items) { items[0].text = std::string(limits::kMaxMessageBytes + 1, 'a'); }));
  EXPECT_TRUE(refused([](auto& items) { items[1].role = ChatRole::kUser; }));
  EXPECT_TRUE(refused([](auto& items) { items[0].complete = false; }));
  EXPECT_FALSE(refused([](auto& items) { items[0].text = std::string(1000, 'a'); }));
  record = sound;
  record.patch.instructions = "\xff";
  EXPECT_EQ(Import().status().code(), StatusCode::kInvalidArgument);
}

TEST_F(HostileImportTest, RefusesTooManyItems) {
  const auto add = [&](size_t count) {
    while (record.patch.items.size() < count) {
      Item item;
      item.id = MakeId("msg_");
      record.patch.items.push_back(std::move(item));
    }
  };
  add(kMaxTimelineItems);
  const Result<SessionInfo> info = Import();
  ASSERT_TRUE(info.ok()) << info.status().ToString();
  EXPECT_EQ(table.AddItems(me, info->id, {{ChatRole::kUser, "x"}}).status().reason(), "array_above_max_length");
  EXPECT_EQ(AskAnew(info->id, "Be long.").status().reason(), "array_above_max_length");
  EXPECT_EQ(table.GetSession(me, info->id)->items, kMaxTimelineItems);
  add(kMaxTimelineItems + 1);
  EXPECT_EQ(Import().status().reason(), "array_above_max_length");
}

TEST_F(HostileImportTest, RefusesTooManyTokens) {
  const auto add = [&](size_t count) {
    while (record.patch.tokens.size() < count) record.patch.tokens.push_back('a');
  };
  add(static_cast<size_t>(table.options().session_len));
  EXPECT_TRUE(Import().ok());
  add(static_cast<size_t>(table.options().session_len) + 1);
  EXPECT_EQ(Import().status().reason(), "context_length_exceeded");
}

TEST_F(HostileImportTest, PinnedTokensCannotExceedTheTimeline) {
  record.patch.pinned = static_cast<int64_t>(record.patch.tokens.size()) + 1;
  EXPECT_EQ(Import().status().code(), StatusCode::kInvalidArgument);
  record.patch.pinned = -1;
  EXPECT_EQ(Import().status().code(), StatusCode::kInvalidArgument);
}

TEST_F(HostileImportTest, RefusesIdsOutsideTheVocabulary) {
  const auto bytes_of = [](int64_t id) {
    ByteWriter out;
    out.Signed(id);
    return out.Take();
  };
  constexpr TokenId kHere = 123456;  // findable among the bytes
  record.patch.tokens[0] = kHere;
  const std::string timeline = Encode(record).payload;
  const size_t at = timeline.find(bytes_of(kHere));
  ASSERT_NE(at, std::string::npos);
  const auto import = [&](int64_t id) {
    std::string changed = timeline;
    changed.replace(at, bytes_of(kHere).size(), bytes_of(id));
    return table.ImportSession(me, Forge(Encode(created).payload, changed)).status();
  };
  const std::string ours = created.codec;
  for (const std::string& codec : {ours, std::string("another's")}) {
    created.codec = codec;
    for (const int64_t id : {int64_t{-1}, INT64_MIN, int64_t{1} << 31, (int64_t{1} << 32) + 'a', INT64_MAX}) {
      EXPECT_EQ(import(id).code(), StatusCode::kInvalidArgument) << codec << " " << id;
    }
    EXPECT_EQ(import(tokenizer.vocab_size()).ok(), codec != ours);
    EXPECT_TRUE(import('a').ok());
  }
}

TEST_F(HostileImportTest, WindowHasAtLeastOneToken) {
  for (const int64_t length : {int64_t{0}, int64_t{-1}, INT64_MIN}) {
    created.window = {.memory_len = length};
    EXPECT_EQ(Import().status().code(), StatusCode::kInvalidArgument) << length;
    created.window = {.session_len = length};
    EXPECT_EQ(Import().status().code(), StatusCode::kInvalidArgument) << length;
  }
  created.window = {.memory_len = INT64_MAX, .session_len = INT64_MAX};
  EXPECT_EQ(Import()->memory_len, table.options().memory_len);
}

TEST_F(HostileImportTest, AdapterNameFollowsTheSettingsRules) {
  for (const std::string& name : {std::string(65, 'x'), std::string("a\xff")}) {
    created.window.adapter = name;
    EXPECT_EQ(Import().status().code(), StatusCode::kInvalidArgument);
  }
  created.window.adapter = "sql";  // another server may have it
  const Result<SessionInfo> info = Import();
  ASSERT_TRUE(info.ok()) << info.status().ToString();
  EXPECT_EQ(info->adapter, "sql");
  EXPECT_EQ(AskAnew(info->id, "Be long.").status().reason(), "model_not_found");
}

TEST_F(HostileImportTest, ForgottenIdsAreAbsent) {
  record.patch.end = TimelineEnd::kForgotten;
  EXPECT_EQ(Import().status().code(), StatusCode::kInvalidArgument);
}

// Each of these bodies announces more elements than a conversation can have: it is refused before memory is allocated
// for them.
TEST_F(HostileImportTest, CountsAreCheckedAgainstTheLimits) {
  constexpr size_t kMany = 8 << 20;
  const auto refused = [&](const std::string& created_bytes, const std::string& timeline_bytes) {
    const std::string body = Forge(created_bytes, timeline_bytes);
    const int64_t before = most_held_memory = held_memory;
    const Status status = table.ImportSession(me, body).status();
    EXPECT_LT(most_held_memory - before, 1 << 20);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    return status.reason();
  };
  ByteWriter metadata;  // pairs of empty strings
  metadata.String("");
  metadata.Double(0);
  metadata.Unsigned(kMany);
  EXPECT_EQ(refused(metadata.Take() + std::string(2 * kMany, '\0'), ""), "invalid_value");

  /// A timeline that begins with these counts, followed by zero bytes.
  const auto timeline = [](std::initializer_list<size_t> counts, size_t bytes) {
    ByteWriter out;
    for (int i = 0; i < 3; ++i) out.Signed(0);
    for (const size_t count : counts) out.Unsigned(count);
    return out.Take() + std::string(bytes, '\0');
  };
  for (const char* codec : {"", "another's"}) {
    if (*codec != '\0') created.codec = codec;  // as claimed by the sender
    const std::string sound = Encode(created).payload;
    EXPECT_EQ(refused(sound, timeline({kMany}, 8 * kMany)), "array_above_max_length");
    EXPECT_EQ(refused(sound, timeline({0, kMany}, kMany)), "context_length_exceeded");
    EXPECT_EQ(refused(sound, timeline({0, 0, kMany}, kMany)), "invalid_value");
  }
}

}  // namespace
}  // namespace ringside
