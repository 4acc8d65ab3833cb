// Sessions of a server with several models: each belongs to the model that it began with, over restarts, forks, exports
// and histories; a conversation gets its model with its first turn; a missing model refuses turns and nothing else.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "session/model_source.h"
#include "tests/session/durable_fixture.h"

namespace ringside {
namespace {

using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;

/// "alpha", the default, with ChatML, and "bravo", whose template has no line feeds between messages.
class TwoModels final : public ModelSource {
 public:
  explicit TwoModels(const SessionTableOptions& options) : options_(options) {}
  Result<std::string> Resolve(std::string_view asked, std::string_view param) const override {
    const std::string name = asked.empty() ? "alpha" : std::string(asked);
    if (missing.contains(name) || (name != "alpha" && name != "bravo")) {
      return NotFound("no model " + name, std::string(param), "model_not_found");
    }
    return name;
  }
  Result<SessionModel> Open(const std::string& name) override {
    ++opened;
    SessionModel model{options_, std::make_shared<ByteTokenizer>(), nullptr};
    model.options.model_name = name;
    model.options.memory_len = options_.memory_len / 2;
    constexpr std::string_view kSource =
        "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>'}}"
        "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";
    model.chat = std::make_shared<ChatTemplate>(std::move(ChatTemplate::Recognise(kSource, {}).value()));
    return model;
  }

  std::set<std::string> missing;
  int opened = 0;

 private:
  const SessionTableOptions& options_;
};

class SeveralModelsTest : public DurableSessionTest {
 protected:
  void SetUp() override {
    DurableSessionTest::SetUp();
    options.model_name = "alpha";
    options.models = &models;
    Restart();
  }
  static TurnSpec AskModel(std::string model, std::string text, std::string conversation = "",
                           std::string previous = "") {
    TurnSpec spec = Ask(std::move(text), std::move(conversation), std::move(previous));
    spec.model = std::move(model);
    return spec;
  }
  Status Refusal(TurnSpec spec) { return table->StartTurn(me, std::move(spec), sink).status(); }
  std::string Prompt() { return tokenizer.Decode(engine->last().tokens); }

  static constexpr const char* kAlphaStart = "<|im_end|>\n<|im_start|>assistant\n";
  static constexpr const char* kBravoStart = "<|im_end|><|im_start|>assistant\n";
  TwoModels models{options};
};

TEST_F(SeveralModelsTest, FirstTurnChoosesTheModelOfAConversation) {
  const std::string id = NewConversation(), other = NewConversation();
  Turn(AskModel("bravo", "Hi", id), "Yo");
  EXPECT_EQ(engine->last().model, "bravo");
  EXPECT_THAT(Prompt(), EndsWith(kBravoStart));
  EXPECT_EQ(table->GetSession(me, id)->model, "bravo");
  EXPECT_EQ(table->GetSession(me, id)->memory_len, options.memory_len / 2);
  Turn(Ask("More", id), "No");  // without a name: the conversation's
  EXPECT_EQ(engine->last().model, "bravo");
  EXPECT_THAT(Prompt(), HasSubstr("Yo<|im_end|><|im_start|>user"));
  Turn(Ask("Hi", other), "Yo");  // without a name: the default one
  EXPECT_EQ(engine->last().model, "alpha");
  EXPECT_THAT(Prompt(), EndsWith(kAlphaStart));
  EXPECT_EQ(models.opened, 1);
}

TEST_F(SeveralModelsTest, AnotherModelIsRefusedInAConversation) {
  const std::string id = NewConversation();
  const std::string response = Turn(AskModel("bravo", "Hi", id), "Yo");
  EXPECT_EQ(Refusal(AskModel("alpha", "More", id)).reason(), "model_mismatch");
  const std::string chain = Turn(AskModel("alpha", "Hi"), "Yo");
  EXPECT_EQ(Refusal(AskModel("bravo", "More", "", chain)).reason(), "model_mismatch");
  EXPECT_EQ(Refusal(AskModel("../bravo", "Hi")).reason(), "model_not_found");
  EXPECT_THAT(Texts(id), ElementsAre("Hi", "Yo"));
  EXPECT_EQ(table->GetResponse(me, response).value()->model_name, "bravo");
}

TEST_F(SeveralModelsTest, FailedFirstTurnChoosesNothing) {
  const std::string id = NewConversation();
  TurnSpec large = AskModel("bravo", std::string(5000, 'x'), id);
  large.window = {};
  EXPECT_FALSE(Refusal(std::move(large)).ok());
  EXPECT_EQ(table->GetSession(me, id)->model, "");
  Start(AskModel("bravo", "Hi", id));
  engine->End(engine->count() - 1, FinishReason::kError,
              Status(StatusCode::kUnavailable, "no weights", "model", kModelLoadFailed));
  table->Flush();
  EXPECT_EQ(table->GetSession(me, id)->model, "");
  Restart();
  EXPECT_EQ(table->GetSession(me, id)->model, "");
  Turn(AskModel("alpha", "Hi", id), "Yo");
  Turn(Ask("More", id), "No");
  EXPECT_THAT(Prompt(), EndsWith(kAlphaStart));
}

TEST_F(SeveralModelsTest, ModelSurvivesARestart) {
  const std::string made = NewConversation();
  const std::string named = table->CreateSession(me, {}, {.model = "bravo"}, {})->id;
  Turn(AskModel("bravo", "Hi", made), "Yo");
  const std::string chain = Turn(AskModel("bravo", "Ho"), "No");
  Restart();
  models.opened = 0;
  const auto page = table->ListSessions(me, "", 10);  // from the summaries
  ASSERT_TRUE(page.ok());
  for (const SessionInfo& info : page->sessions) EXPECT_EQ(info.model, "bravo") << info.id;
  EXPECT_EQ(models.opened, 0);
  Turn(Ask("More", made), "a");
  EXPECT_EQ(engine->last().model, "bravo");
  EXPECT_THAT(Prompt(), HasSubstr("Yo<|im_end|><|im_start|>user"));
  EXPECT_FALSE(table->GetResponse(me, Turn(Ask("More", "", chain), "b")).value()->retokenised);
  EXPECT_EQ(engine->last().model, "bravo");
  Turn(Ask("First", named), "c");
  EXPECT_EQ(engine->last().model, "bravo");
  EXPECT_EQ(models.opened, 1);
}

TEST_F(SeveralModelsTest, MissingModelRefusesTurnsOnly) {
  const std::string id = NewConversation();
  const std::string begun = Turn(AskModel("bravo", "Hi", id), "Yo");
  models.missing = {"bravo"};
  Restart();
  EXPECT_THAT(Texts(id), ElementsAre("Hi", "Yo"));
  EXPECT_EQ(table->GetResponse(me, begun).value()->model_name, "bravo");
  EXPECT_EQ(Refusal(Ask("More", id)).reason(), "model_not_found");
  EXPECT_EQ(Refusal(AskModel("alpha", "More", id)).reason(), "model_mismatch");
  models.missing.clear();
  const auto response = table->GetResponse(me, Turn(Ask("More", id), "No"));
  EXPECT_EQ(engine->last().model, "bravo");
  EXPECT_THAT(Prompt(), HasSubstr("Yo<|im_end|><|im_start|>user"));
}

TEST_F(SeveralModelsTest, ForksAndImportsKeepTheModel) {
  const std::string id = NewConversation();
  Turn(AskModel("bravo", "Hi", id), "Yo");
  const std::string fork = table->Fork(me, id, std::nullopt)->id;
  const std::string copy = table->ImportSession(me, table->ExportSession(me, id).value())->id;
  for (const std::string& one : {fork, copy}) {
    EXPECT_EQ(table->GetSession(me, one)->model, "bravo");
    Turn(Ask("More", one), "No");
    EXPECT_EQ(engine->last().model, "bravo");
  }
}

TEST_F(SeveralModelsTest, HistoriesOfModelsAreApart) {
  const auto ask = [&](const std::string& model, bool more) {
    TurnSpec spec = AskModel(model, "Hi");
    if (more) {
      spec.input.push_back({ChatRole::kAssistant, "Yo"});
      spec.input.push_back({ChatRole::kUser, "More"});
    }
    spec.carries_history = true;
    spec.store = false;
    return spec;
  };
  Turn(ask("bravo", false), "Yo");
  const TimelineId bravo = engine->last().timeline;
  Turn(ask("alpha", true), "No");
  EXPECT_NE(engine->last().timeline, bravo);
  Turn(ask("bravo", true), "No");
  EXPECT_EQ(engine->last().timeline, bravo);
}

TEST_F(SeveralModelsTest, CountersCoverAllModels) {
  Turn(AskModel("alpha", "Hi"), "Yo");
  const auto total = [&] { return table->Owners().front(); };
  const OwnerTotals before = total();
  Turn(AskModel("bravo", "Hello there", NewConversation()), "Yo");
  EXPECT_GT(total().text_bytes, before.text_bytes);
  EXPECT_GT(total().stored_bytes, before.stored_bytes);
  Start(AskModel("bravo", "Hi", NewConversation()));
  engine->End(engine->count() - 1, FinishReason::kError, Unavailable("gone"));
  table->Flush();
  EXPECT_EQ(table->stats().interrupted, 1U);
}

}  // namespace
}  // namespace ringside
