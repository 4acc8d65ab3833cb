// Items deleted and added in the middle of a conversation.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/session/table_test.h"

namespace ringside {
namespace {

using ::testing::ElementsAre;

class ChangedItems : public TableTest {};

TEST_F(ChangedItems, DeletingAnItemRecomputesTheRest) {
  const std::string id = NewConversation();
  const std::string first = Turn(Ask("One", id), "Yo"), second = Turn(Ask("Two", id), "So");
  const SharedList<Item> items = *table.GetItems(me, id);
  EXPECT_EQ(table.DeleteItem(me, id, "msg_x").code(), StatusCode::kNotFound);
  EXPECT_TRUE(table.DeleteItem(me, id, items[0].id).ok());
  EXPECT_THAT(Texts(id), ElementsAre("Yo", "Two", "So"));
  EXPECT_TRUE(table.GetResponse(me, first).ok());
  Turn(Ask("Three", id), "Oh");
  EXPECT_EQ(Prompt(engine.last()),
            "<|im_start|>assistant\nYo<|im_end|>\n<|im_start|>user\nTwo<|im_end|>\n<|im_start|>assistant\n"
            "So<|im_end|>\n<|im_start|>user\nThree<|im_end|>\n<|im_start|>assistant\n");
  EXPECT_EQ(engine.last().timeline, engine.requests()[0].timeline) << "the cache is compared id by id";
  EXPECT_TRUE(table.DeleteItem(me, id, items[3].id).ok());
  EXPECT_EQ(table.GetResponse(me, second).status().code(), StatusCode::kNotFound) << "its answer went";
  EXPECT_THAT(Texts(id), ElementsAre("Yo", "Two", "Three", "Oh"));
}

TEST_F(ChangedItems, ResponseKeepsItsPositionWhenEarlierItemsChange) {
  const std::string id = NewConversation();
  Turn(Ask("One", id), "Yo");
  const std::string second = Turn(Ask("Two", id), "So");
  Turn(Ask("Three", id), "Oh");
  const SharedList<Item> items = *table.GetItems(me, id);
  ASSERT_TRUE(table.DeleteItem(me, id, items[1].id).ok());
  ASSERT_TRUE(table.AddItems(me, id, {{ChatRole::kUser, "Zero"}, {ChatRole::kUser, "Half"}}, "").ok());
  EXPECT_THAT(Texts(id), ElementsAre("Zero", "Half", "One", "Two", "So", "Three", "Oh"));
  EXPECT_EQ(table.GetInputItems(me, second)->size(), 4u);
  Turn(Ask("And?", "", second), "No");
  EXPECT_THAT(Prompt(engine.last()), ::testing::EndsWith("So<|im_end|>\n<|im_start|>user\nAnd?<|im_end|>\n"
                                                         "<|im_start|>assistant\n"));
}

TEST_F(ChangedItems, InsertsItemsAfterAnyItem) {
  const std::string id = NewConversation();
  Turn(Ask("One", id), "Yo");
  const SharedList<Item> items = *table.GetItems(me, id);
  ASSERT_TRUE(table.AddItems(me, id, {{ChatRole::kUser, "More"}}, items[0].id).ok());
  EXPECT_EQ(table.AddItems(me, id, {{ChatRole::kUser, "x"}}, "msg_x").status().code(), StatusCode::kNotFound);
  EXPECT_THAT(Texts(id), ElementsAre("One", "More", "Yo"));
  Turn(Ask("Two", id), "So");
  EXPECT_EQ(Prompt(engine.last()),
            "<|im_start|>user\nOne<|im_end|>\n<|im_start|>user\nMore<|im_end|>\n<|im_start|>assistant\nYo<|im_end|>\n"
            "<|im_start|>user\nTwo<|im_end|>\n<|im_start|>assistant\n");
}

TEST_F(ChangedItems, RefusesChangesDuringATurn) {
  const std::string id = NewConversation();
  Turn(Ask("One", id), "Yo");
  const std::string item = table.GetItems(me, id).value()[0].id;
  ASSERT_TRUE(table.StartTurn(me, Ask("Two", id), sink).ok());
  EXPECT_EQ(table.DeleteItem(me, id, item).reason(), "conversation_locked");
  EXPECT_EQ(table.AddItems(me, id, {{ChatRole::kUser, "x"}}, "").status().reason(), "conversation_locked");
  engine.AnswerLast("So");
  EXPECT_TRUE(table.DeleteItem(me, id, item).ok());
}

}  // namespace
}  // namespace ringside
