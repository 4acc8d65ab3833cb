// Imports are anybody's bytes: whatever is in them, a conversation comes in whole or not at all, and nothing that is
// asked of it afterwards brings the server down.
#include <gtest/gtest.h>
#include <xxhash.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/bytes.h"
#include "session/records.h"
#include "session/session_table.h"
#include "tests/session/recording_sink.h"
#include "tests/session/scripted_engine.h"

namespace ringside {
namespace {

class HostileImportTest : public ::testing::Test, protected TableFixture {
 protected:
  // A conversation of two turns with a system message, as one would export it.
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
  /// An export of what `created` and `record` say now.
  std::string Forge() const {
    ByteWriter out;
    out.String(Encode(created).payload);
    out.String(Encode(record).payload);
    std::string bytes = std::string(kMagic) + out.Take();
    ByteWriter checksum;
    checksum.Fixed64(XXH3_64bits(bytes.data(), bytes.size()));
    return bytes + checksum.bytes();
  }
  Result<SessionInfo> Import() { return table.ImportSession(me, Forge()); }
  Result<TurnTicket> AskAnew(const std::string& conversation, const std::string& instructions) {
    TurnSpec spec;
    spec.conversation = conversation;
    spec.input = {{ChatRole::kUser, "?"}};
    spec.instructions = instructions;
    return table.StartTurn(me, spec, sink);
  }

  static constexpr std::string_view kMagic = "ringside session 1\n";
  const Caller me{"me", 7};
  std::shared_ptr<RecordingSink> sink = std::make_shared<RecordingSink>(7);
  CreatedRecord created;
  TimelineRecord record;
};

TEST_F(HostileImportTest, WhatIsNotChangedComesInAndGoesOn) {
  const Result<SessionInfo> info = Import();
  ASSERT_TRUE(info.ok()) << info.status().ToString();
  EXPECT_TRUE(AskAnew(info->id, "Be long.").ok());
  EXPECT_EQ(tokenizer.Decode(engine.last().tokens).substr(0, 31), "<|im_start|>system\nBe long.<|im");
}

// Its ids would be looked for before the timeline's first one.
TEST_F(HostileImportTest, AnItemWithoutIdsCannotBeSampled) {
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

TEST_F(HostileImportTest, AnItemHasBothItsEndsOrNone) {
  Item& last = record.patch.items.back();
  last.sampled = false;
  last.token_end = -1;  // its beginning is still there
  EXPECT_EQ(Import().status().code(), StatusCode::kInvalidArgument);
  last.token_begin = -1;
  EXPECT_TRUE(Import().ok());
  last.token_end = last.token_begin = -7;
  EXPECT_EQ(Import().status().code(), StatusCode::kInvalidArgument);
}

TEST_F(HostileImportTest, NoAnswerIsOpen) {
  record.patch.answer_begin = 0;
  EXPECT_EQ(Import().status().code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace ringside
