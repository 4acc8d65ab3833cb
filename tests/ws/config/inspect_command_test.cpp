// `ringside-server inspect`: facts from the headers of models, and the sentence of a refusal.
#include "ws/config/inspect_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/json/json_tree.h"
#include "engine/model/model.h"
#include "kernels/backend.h"
#include "tests/golden_folder.h"

namespace ringside {
namespace {

std::vector<nlohmann::json> LinesOf(const CommandOutcome& outcome) {
  std::vector<nlohmann::json> lines;
  std::istringstream text(outcome.to_stdout);
  for (std::string line; std::getline(text, line);) lines.push_back(ParseJsonTree(line));
  return lines;
}

TEST(InspectCommand, StatesTheNeedsOfModelsThatLoad) {
  const std::string dense = GoldenFolder("llama"), mixture = GoldenFolder("families/gpt_oss");
  const CommandOutcome outcome = RunInspectCommand({dense, mixture});
  EXPECT_EQ(outcome.exit_code, 0);
  const auto lines = LinesOf(outcome);
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0]["path"], dense);
  EXPECT_EQ(lines[0]["loads"], true);
  EXPECT_EQ(lines[0]["architecture"], "llama");
  EXPECT_EQ(lines[0]["context"], 2048);
  EXPECT_GT(lines[0]["weight_bytes"], std::filesystem::file_size(dense + "/model.safetensors") / 2);
  EXPECT_LE(lines[0]["weight_bytes"], std::filesystem::file_size(dense + "/model.safetensors"));
  EXPECT_LT(lines[0]["token_bytes"], lines[0]["weight_bytes"]) << "one row of the embedding is read";
  EXPECT_GT(lines[0]["cache_bytes"], 0);
  EXPECT_LT(lines[1]["token_bytes"], lines[1]["weight_bytes"]) << "some experts are read";
}

TEST(InspectCommand, RefusesInTheWordsOfTheServer) {
  const std::string folder = ::testing::TempDir() + "inspect_" + std::to_string(::getpid());
  std::filesystem::create_directories(folder);
  std::ofstream(folder + "/config.json") << R"({"model_type": "deepseek_v4"})";
  const auto backend = MakeCpuBackend({.threads = 1});
  ASSERT_TRUE(backend.ok());
  const std::vector<std::string> paths = {folder, folder + "/config.json", folder + "/none"};
  const CommandOutcome outcome = RunInspectCommand(paths);
  EXPECT_EQ(outcome.exit_code, 0);
  const auto lines = LinesOf(outcome);
  ASSERT_EQ(lines.size(), paths.size());
  for (size_t i = 0; i < paths.size(); ++i) {
    EXPECT_EQ(lines[i]["loads"], false);
    EXPECT_EQ(lines[i]["reason"], Model::Load(paths[i], **backend).status().message());
  }
  EXPECT_THAT(lines[0]["reason"].get<std::string>(),
              ::testing::HasSubstr("the nearest model that loads is DeepSeek-V3.1"));
  std::filesystem::remove_all(folder);
}

TEST(InspectCommand, NeedsAPath) { EXPECT_EQ(RunInspectCommand({}).exit_code, kBadCommand); }

}  // namespace
}  // namespace ringside
