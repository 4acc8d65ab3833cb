// The models on this machine and the references of others: names, choices, the table.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "clients/models/gguf_choice.h"
#include "clients/models/memory_rate.h"
#include "clients/models/model_list.h"
#include "clients/pull/pull_reference.h"

namespace ringside::client {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(GgufChoice, GroupsPartsAndLeavesOutOtherFiles) {
  const std::vector<std::string> files = {"b-Q8_0-00002-of-00002.gguf", "a-Q4_K_M.gguf",       "mmproj-a-F16.gguf",
                                          "b-Q8_0-00001-of-00002.gguf", "a.imatrix.gguf",      "README.md",
                                          "c-Q4_0-00001-of-00003.gguf", "x/gpt-oss-mxfp4.gguf"};
  const auto models = GroupGgufFiles(files);
  ASSERT_EQ(models.size(), 3u);
  EXPECT_EQ(models[0].name, "a-Q4_K_M");
  EXPECT_EQ(models[0].quantisation, "Q4_K_M");
  EXPECT_THAT(models[1].files, ElementsAre("b-Q8_0-00001-of-00002.gguf", "b-Q8_0-00002-of-00002.gguf"));
  EXPECT_EQ(models[2].quantisation, "mxfp4");
}

TEST(GgufChoice, PrefersTheUsualQuantisation) {
  const auto choose = [](std::vector<std::string> files, std::string_view quantisation) {
    const auto chosen = ChooseGguf(GroupGgufFiles(files), quantisation);
    return chosen ? chosen->name : chosen.failure().message;
  };
  EXPECT_EQ(choose({"m-Q8_0.gguf", "m-Q4_K_M.gguf", "m-Q2_K.gguf"}, ""), "m-Q4_K_M");
  EXPECT_EQ(choose({"m-Q8_0.gguf", "m-Q2_K.gguf"}, ""), "m-Q8_0");
  EXPECT_EQ(choose({"m-Q8_0.gguf", "m-Q2_K.gguf"}, "q2_k"), "m-Q2_K");
  EXPECT_EQ(choose({"m.gguf"}, ""), "m");
  EXPECT_EQ(choose({"m-Q8_0.gguf"}, "m-q8_0"), "m-Q8_0");
  EXPECT_EQ(choose({"x.gguf", "y.gguf"}, ""), "Choose one of its files: x, y.");
  EXPECT_EQ(choose({"m-Q8_0.gguf"}, "Q9"), "It has no file in Q9; it has Q8_0.");
}

TEST(PullReference, ReadsTheNamesOfEachSource) {
  const auto hub = ParsePullReference("hf:Qwen/Qwen3-4B-GGUF:Q4_K_M");
  ASSERT_TRUE(hub.ok());
  EXPECT_EQ(hub->kind, PullReference::Kind::kHub);
  EXPECT_EQ(hub->Describe(), "Qwen/Qwen3-4B-GGUF");
  EXPECT_EQ(hub->variant, "Q4_K_M");
  const auto page =
      ParsePullReference("https://huggingface.co/a/b/blob/v1.0/q8/c-Q8_0-00001-of-00002.gguf?download=true");
  ASSERT_TRUE(page.ok());
  EXPECT_EQ(page->revision, "v1.0");
  EXPECT_EQ(page->variant, "c-Q8_0");
  const auto ollama = ParsePullReference("qwen3");
  ASSERT_TRUE(ollama.ok());
  EXPECT_EQ(ollama->Describe(), "qwen3:latest");
  EXPECT_EQ(ollama->owner, "library");
  EXPECT_EQ(ParsePullReference("bob/qwen3:4b")->Describe(), "bob/qwen3:4b");
  EXPECT_EQ(ParsePullReference("http://[::1]:8080/x.gguf")->url.ToString(), "http://[::1]:8080/x.gguf");
  for (const char* bad : {"", "hf:x", "hf:../y", "a/b/c", "x.gguf", "ftp://h/x.gguf", "https://u:p@h/x.gguf", "a b",
                          "https://.h/x.gguf", "https://../x.gguf", "https://huggingface.co/../y/tree/main"}) {
    EXPECT_FALSE(ParsePullReference(bad).ok()) << bad;
  }
}

TEST(WebUrl, RedirectsAreResolved) {
  const WebUrl from = *ParseWebUrl("https://h.org/a/b?c");
  const auto to = [&](const char* location) { return FollowLocation(from, location)->ToString(); };
  EXPECT_EQ(to("/x"), "https://h.org/x");
  EXPECT_EQ(to("x?y"), "https://h.org/a/x?y");
  EXPECT_EQ(to("//i.org:81/x"), "https://i.org:81/x");
  EXPECT_EQ(to("https://I.org"), "https://i.org/");
  EXPECT_FALSE(FollowLocation(from, "http://h.org/x").ok());
  EXPECT_FALSE(FollowLocation(from, "javascript://x").ok());
}

TEST(ModelTable, ShowsMemoryRateAndReasons) {
  const std::vector<LocalModel> models = {{"small", "ringside", "/s", 2'500'000'000},
                                          {"large", "Ollama", "/l", 40'000'000'000},
                                          {"odd", "LM Studio", "/o", 1}};
  const Inspection small{
      .loads = true, .weight_bytes = 2'500'000'000, .token_bytes = 2'000'000'000, .machine_bytes = int64_t{8} << 30};
  const Inspection large{
      .loads = true, .weight_bytes = 40'000'000'000, .token_bytes = 4'000'000'000, .machine_bytes = int64_t{8} << 30};
  const std::string table = ModelTable(models, {small, large, {.reason = "architecture 'odd' is not supported"}}, 40e9);
  EXPECT_THAT(table, HasSubstr("small  ringside       2.5 GB   2.7 GB        15\n"));
  EXPECT_THAT(table, HasSubstr("large  Ollama        40.0 GB  40.2 GB!       7.5\n")) << "more than the machine has";
  EXPECT_THAT(table, HasSubstr("These do not load:\nodd (LM Studio): architecture 'odd' is not supported\n"));
  EXPECT_THAT(ModelTable({models[0]}, {small}, 0), Not(HasSubstr("!")));
}

TEST(ModelsNamed, FindsNamesRepositoriesAndBases) {
  const std::vector<LocalModel> models = {{"Qwen3-4B-Q4_K_M", "ringside", "/1", 1},
                                          {"Qwen/Qwen3-4B", "Hugging Face", "/2", 1},
                                          {"qwen3:latest", "Ollama", "/3", 1},
                                          {"Qwen3-4B-Q4_K_M", "LM Studio", "/4", 1}};
  const auto paths = [&](std::string_view name) {
    std::string all;
    for (const LocalModel& model : ModelsNamed(models, name)) all += model.path;
    return all;
  };
  EXPECT_EQ(paths("qwen3-4b-q4_k_m"), "/1") << "in the first place";
  EXPECT_EQ(paths("Qwen3-4B"), "/1/2") << "more than one";
  EXPECT_EQ(paths("qwen/qwen3-4b"), "/2");
  EXPECT_EQ(paths("qwen3"), "/3");
  EXPECT_EQ(paths("llama"), "");
}

TEST(MemoryRate, IsPlausible) {
  const double rate = MeasureMemoryRate();
  EXPECT_GT(rate, 1e7);
  EXPECT_LT(rate, 1e14);
}

}  // namespace
}  // namespace ringside::client
