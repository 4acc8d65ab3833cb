#include "ws/app_template.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/golden_folder.h"

namespace ringside {
namespace {

using testing::HasSubstr;

TEST(AppTemplate, IsTheModelsOwnANamedOneOrAFile) {
  const std::string own =
      "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}<|stop|>{% endfor %}"
      "{% if add_generation_prompt %}<|assistant|>{% endif %}";
  const Result<ChatTemplate> models = ChooseTemplate("", own, {"<s>", "</s>"});
  ASSERT_TRUE(models.ok()) << models.status().ToString();
  EXPECT_EQ(models->name(), "own");
  EXPECT_EQ(models->end_of_turn(), "<|stop|>");
  EXPECT_EQ(ChooseTemplate("llama3", own, {})->name(), "llama3");
  const std::string file = GoldenFolder("chat_template/") + "gemma3.jinja";
  EXPECT_EQ(ChooseTemplate(file, own, {"<bos>", "<eos>"})->name(), "gemma");
}

TEST(AppTemplate, WhatCannotBeUsedIsSaid) {
  EXPECT_THAT(ChooseTemplate("/no/such/file", "", {}).status().message(), HasSubstr("unknown chat template"));
  EXPECT_THAT(ChooseTemplate("/dev/null", "", {}).status().message(), HasSubstr("/dev/null"));
  EXPECT_THAT(ChooseTemplate("/dev/zero", "", {}).status().message(), HasSubstr("1 MiB"));
  EXPECT_THAT(ChooseTemplate("", "\n{% include 'x' %}", {}).status().message(), HasSubstr("line 2: 'include'"));
}

}  // namespace
}  // namespace ringside
