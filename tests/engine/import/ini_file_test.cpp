#include "engine/import/ini_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ringside {
namespace {

using ::testing::HasSubstr;

TEST(IniFile, ReadsConfigparserOutput) {
  const auto file = IniFile::Parse(
      "# made by hand\n[gpt]\nmodel_name = a b\nHEAD_NUM=16\nsize_per_head : 64  ; each\nempty =\r\n\n"
      "list = one\n  two\n\n    \n[task_0]\nhead_num = 2\n",
      "config.ini");
  ASSERT_TRUE(file.ok()) << file.status().ToString();
  EXPECT_EQ(file->Find("gpt", "model_name"), "a b");
  EXPECT_EQ(file->Find("gpt", "head_num"), "16");
  EXPECT_EQ(file->Find("gpt", "size_per_head"), "64");
  EXPECT_EQ(file->Find("gpt", "empty"), "");
  EXPECT_EQ(file->Find("gpt", "list"), "one\ntwo");
  EXPECT_EQ(file->Find("task_0", "head_num"), "2");
  EXPECT_EQ(file->Find("gpt", "none"), std::nullopt);
  EXPECT_EQ(file->Find("gptj", "head_num"), std::nullopt);
  EXPECT_TRUE(file->HasSection("task_0"));
  EXPECT_FALSE(file->HasSection("gptj"));
}

TEST(IniFile, ErrorNamesTheLine) {
  const std::pair<std::string, const char*> cases[] = {
      {"[gpt\na = 1\n", "config.ini: line 1 has an unterminated section"},
      {"a = 1\n", "line 1 precedes every section"},
      {"[gpt]\n\nwords\n", "line 3 is neither a section nor"},
      {"[gpt]\n= 1\n", "line 2 is neither a section nor"},
      {"[gpt]\na = 1\nA = 2\n", "line 3 repeats 'a'"},
      {std::string("[gpt]\na = 1\0\n", 13), "line 2 has a zero byte"},
      {std::string(1 << 20, '\n') + "\n", "longer than 1048576 bytes"},
  };
  for (const auto& [text, message] : cases) {
    const auto file = IniFile::Parse(text, "config.ini");
    EXPECT_EQ(file.status().code(), StatusCode::kCorruption) << text.substr(0, 40);
    EXPECT_THAT(file.status().message(), HasSubstr(message));
  }
  std::string many = "[gpt]\n";
  for (int i = 0; i < 5000; ++i) many += "key" + std::to_string(i) + " = 1\n";
  EXPECT_THAT(IniFile::Parse(many, "config.ini").status().message(), HasSubstr("exceeds the limit of values"));
}

}  // namespace
}  // namespace ringside
