// Sampling defaults recommended by a model's files: read, overridden, and refused with file and name.
#include "engine/sampling/sampling_defaults.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "tests/engine/files/gguf_file_writer.h"

namespace ringside {
namespace {

class SamplingDefaults : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() / ("ringside_sampling_" + std::to_string(getpid()));
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  Result<SamplingParams> Folder(const std::string& json) {
    std::ofstream(folder_ / "generation_config.json") << json;
    return ReadSamplingDefaults(folder_);
  }

  std::filesystem::path folder_;
};

TEST_F(SamplingDefaults, OfAFolder) {
  SamplingParams params = ReadSamplingDefaults(folder_).value();
  EXPECT_EQ(params.temperature, 0.7);
  EXPECT_EQ(params.top_p, 0.9);
  EXPECT_EQ(params.top_k, 0);
  params = Folder(R"({"do_sample": true, "eos_token_id": [1, 2], "temperature": 0.6, "top_k": 20, "top_p": 0.95,
                      "min_p": null, "repetition_penalty": 1.05})")
               .value();
  EXPECT_EQ(params.temperature, 0.6);
  EXPECT_EQ(params.top_p, 0.95);
  EXPECT_EQ(params.top_k, 20);
  EXPECT_EQ(params.min_p, 0);
  EXPECT_EQ(params.repetition_penalty, 1.05);
  EXPECT_EQ(Folder(R"({"top_p": 0.8})")->temperature, 0.7);
  EXPECT_EQ(ReadSamplingDefaults(folder_ / "m.nemo")->temperature, 0.7) << "what says nothing is not looked into";
}

TEST_F(SamplingDefaults, RefusesValuesOutOfRangeByFileAndName) {
  const std::string file = (folder_ / "generation_config.json").string() + ": ";
  EXPECT_EQ(Folder(R"({"temperature": 3})").status().message(), file + "temperature must be from 0 to 2, not 3");
  EXPECT_EQ(Folder(R"({"top_k": "all"})").status().message(), file + "'top_k' is not an integer");
  EXPECT_EQ(Folder(R"({"top_p": true})").status().message(), file + "'top_p' is not a number");
  EXPECT_EQ(Folder("{").status().code(), StatusCode::kCorruption);
}

TEST_F(SamplingDefaults, OfAGgufFile) {
  const std::string path = folder_ / "model.gguf";
  GgufFileWriter writer;
  writer.F32("general.sampling.temp", 0.6f).U32("general.sampling.top_k", 20);
  writer.F32("general.sampling.penalty_repeat", 1.05f);
  std::ofstream(path) << writer.Finish();
  const SamplingParams params = ReadSamplingDefaults(path).value();
  EXPECT_EQ(params.temperature, 0.6);
  EXPECT_EQ(params.top_k, 20);
  EXPECT_EQ(params.repetition_penalty, 1.05);
  EXPECT_EQ(params.top_p, 0.9);
  EXPECT_EQ(ReadSamplingDefaults(path + "x").status().code(), StatusCode::kNotFound);
}

}  // namespace
}  // namespace ringside
