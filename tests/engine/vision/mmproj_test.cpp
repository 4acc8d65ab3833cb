// A vision tower in llama.cpp's GGUF file next to the text network's.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "tests/engine/vision/vision_golden.h"

namespace ringside {
namespace {

class Projectors : public ::testing::Test {
 protected:
  void SetUp() override { std::filesystem::copy(VisionFolder("mistral3_gguf"), folder_); }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::unique_ptr<Model> Load() { return std::move(Model::Load(folder_ + "/model.gguf", *backend_).value()); }

  const std::unique_ptr<Backend> backend_ = MakeTestBackend();
  const std::string folder_ = ::testing::TempDir() + "mmproj_" + std::to_string(::getpid());
};

class ProjectorFamilies : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(All, ProjectorFamilies,
                         ::testing::Values("mistral3", "gemma3", "qwen2_vl", "qwen2_5_vl", "qwen3_vl"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(ProjectorFamilies, EqualTheReference) {
  const std::string name = GetParam();
  const auto backend = MakeTestBackend();
  const auto model = std::move(Model::Load(VisionFolder(name + "_gguf") + "/model.gguf", *backend).value());
  ASSERT_NE(model->image_format(), nullptr);
  for (const GoldenPicture& golden : kGoldenPictures) {
    const ImagePrompt prompt = ReadImagePrompt(*model, name, golden);
    const auto rows = EncodePicture(*model, *prompt.image.picture);
    const std::string file = VisionFolder(name) + "/" + golden.label;
    EXPECT_LT(RelativeError(InputsOf(*rows, *model), ReadFloats(file + ".rows")), 2e-5) << golden.label;
    OwnCache cache(*model, {0, 256, Eviction::kToken}, 256);
    int64_t row = 0;
    const std::vector<float> logits = RunWithImage(*model, cache.get(), prompt.tokens, *rows, &row, 256);
    const std::vector<float> want = ReadFloats(file + ".logits");
    EXPECT_LT(RelativeError(std::vector<float>(logits.end() - std::ssize(want), logits.end()), want), 1e-4);
  }
}

// The first converters exchanged the names of an MLP's matrices. Their shapes show it.
TEST_F(Projectors, WithExchangedNamesAreRead) {
  std::filesystem::remove_all(folder_);
  std::filesystem::copy(VisionFolder("gemma3_gguf"), folder_);
  const std::string path = folder_ + "/mmproj-model.gguf";
  const std::vector<uint8_t> bytes = ReadBytes(path);
  std::string file(bytes.begin(), bytes.end());
  for (size_t at = file.find("v.blk."); at != file.npos; at = file.find("v.blk.", at + 1)) {
    const size_t part = at + std::string_view("v.blk.0.").size();
    const bool up = file.compare(part, 7, "ffn_up.") == 0, down = file.compare(part, 9, "ffn_down.") == 0;
    if (!up && !down) continue;
    file.replace(part, up ? 6 : 8, up ? "ffn_down" : "ffn_up");
    file[at - 8] = static_cast<char>(file[at - 8] + (up ? 2 : -2));  // length of the name
  }
  std::ofstream(path, std::ios::binary) << file;
  const auto model = Load();
  ASSERT_NE(model->image_format(), nullptr);
  const auto rows = EncodePicture(*model, *ReadPicture("gemma3", kGoldenPictures[0]));
  EXPECT_LT(RelativeError(InputsOf(*rows, *model), ReadFloats(VisionFolder("gemma3") + "/fits.rows")), 2e-5);
}

// Which of two towers belongs to the model is unknown.
TEST_F(Projectors, AreUsedIfThereIsExactlyOne) {
  std::filesystem::copy_file(folder_ + "/mmproj-model.gguf", folder_ + "/MMPROJ-other.gguf");
  EXPECT_EQ(Load()->image_format(), nullptr);
  std::filesystem::remove(folder_ + "/mmproj-model.gguf");
  EXPECT_NE(Load()->image_format(), nullptr);
  std::filesystem::remove(folder_ + "/MMPROJ-other.gguf");
  EXPECT_EQ(Load()->image_format(), nullptr);
}

TEST_F(Projectors, ThatDoNotFitAreNotUsed) {
  std::filesystem::copy_file(folder_ + "/model.gguf", folder_ + "/mmproj-model.gguf",
                             std::filesystem::copy_options::overwrite_existing);
  EXPECT_EQ(Load()->image_format(), nullptr);
  std::filesystem::resize_file(folder_ + "/mmproj-model.gguf", 100);
  EXPECT_EQ(Load()->image_format(), nullptr);
}

}  // namespace
}  // namespace ringside
