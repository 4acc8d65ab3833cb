// A table on a scripted engine, and the turns of one owner.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "session/table/session_table.h"
#include "tests/session/recording_sink.h"
#include "tests/session/scripted_engine.h"

namespace ringside {

class TableTest : public ::testing::Test, protected TableFixture {
 protected:
  std::string NewConversation() {
    Result<SessionInfo> info = table.CreateSession(me, {}, {}, {});
    CHECK(info.ok());
    return info->id;
  }
  // Asks and answers; returns the response's id.
  std::string Turn(TurnSpec spec, std::string_view answer) {
    const Result<TurnTicket> ticket = table.StartTurn(me, std::move(spec), sink);
    CHECK(ticket.ok());
    engine.AnswerLast(answer);
    return ticket->response_id;
  }
  std::string Prompt(const TurnRequest& request) const { return tokenizer.Decode(request.tokens); }
  std::vector<std::string> Texts(const std::string& conversation) {
    std::vector<std::string> texts;
    const Result<SharedList<Item>> items = table.GetItems(me, conversation);
    CHECK(items.ok());
    for (const Item& item : *items) texts.push_back(item.text);
    return texts;
  }
  ResponseStatus StatusOf(const std::string& id) { return table.GetResponse(me, id).value()->status; }

  const Caller me{"me", 7};
  const Caller other{"other", 8};
  std::shared_ptr<RecordingSink> sink = std::make_shared<RecordingSink>(7);
};

}  // namespace ringside
