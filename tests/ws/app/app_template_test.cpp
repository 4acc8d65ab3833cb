#include "ws/app/app_template.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/golden_folder.h"

namespace ringside {
namespace {

using testing::HasSubstr;

TEST(AppTemplate, IsTheModelsOwnOrNamedOrFromAFile) {
  const std::string own =
      "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}<|stop|>{% endfor %}"
      "{% if add_generation_prompt %}<|assistant|>{% endif %}";
  const Result<ChatTemplate> models = ChooseTemplate("", own, false, {"<s>", "</s>"});
  ASSERT_TRUE(models.ok()) << models.status().ToString();
  EXPECT_EQ(models->name(), "own");
  EXPECT_EQ(models->end_of_turn(), "<|stop|>");
  EXPECT_EQ(ChooseTemplate("llama3", own, false, {})->name(), "llama3");
  const std::string file = GoldenFolder("chat_template/") + "gemma3.jinja";
  EXPECT_EQ(ChooseTemplate(file, own, false, {"<bos>", "<eos>"})->name(), "gemma");
}

// A base model: its training data had no chats.
TEST(AppTemplate, DefaultsToPlainWithoutAModelTemplate) {
  const Result<ChatTemplate> chat = ChooseTemplate("", "", false, {"<s>", "</s>", "<s>"});
  ASSERT_TRUE(chat.ok()) << chat.status().ToString();
  EXPECT_EQ(chat->name(), "plain");
  EXPECT_EQ(chat->Render(std::vector<ChatMessage>{{ChatRole::kUser, "Hi"}}, TimelineEnd::kNothing, true).Text(),
            "<s>User: Hi\nAssistant:");
  EXPECT_EQ(ChooseTemplate("chatml", "", false, {})->name(), "chatml");
}

TEST(AppTemplate, EncoderTemplateIsItsInput) {
  const Result<ChatTemplate> lines = ChooseTemplate("", "", true, {"", "</s>"});
  ASSERT_TRUE(lines.ok()) << lines.status().ToString();
  EXPECT_TRUE(lines->renders_whole());
  EXPECT_EQ(lines->end_of_turn(), "</s>");
  const std::string own = "{% for m in messages %}{{ m.role }}: {{ m.content }} {% endfor %}{{ eos_token }}";
  EXPECT_EQ(ChooseTemplate("", own, true, {"", "</s>"})->source(), own);
  EXPECT_THAT(ChooseTemplate("", "", true, {"", ""}).status().message(), HasSubstr("no end-of-text token"));
  EXPECT_THAT(ChooseTemplate("chatml", "", true, {"", "</s>"}).status().message(), HasSubstr("not the name 'chatml'"));
}

TEST(AppTemplate, ReportsUnusableTemplates) {
  EXPECT_THAT(ChooseTemplate("/no/such/file", "", false, {}).status().message(), HasSubstr("unknown chat template"));
  EXPECT_THAT(ChooseTemplate("/dev/null", "", false, {}).status().message(), HasSubstr("/dev/null"));
  EXPECT_THAT(ChooseTemplate("/dev/zero", "", false, {}).status().message(), HasSubstr("1 MiB"));
  EXPECT_THAT(ChooseTemplate("", "\n{% include 'x' %}", false, {}).status().message(), HasSubstr("line 2: 'include'"));
}

}  // namespace
}  // namespace ringside
