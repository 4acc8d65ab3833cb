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

TEST_F(Projectors, EqualTheReference) {
  const auto model = Load();
  ASSERT_NE(model->image_format(), nullptr);
  for (const GoldenPicture& golden : kGoldenPictures) {
    const ImagePrompt prompt = ReadImagePrompt(*model, "mistral3", golden);
    const auto rows = EncodePicture(*model, *prompt.image.picture);
    const std::string file = VisionFolder("mistral3") + "/" + golden.label;
    EXPECT_LT(RelativeError(rows->values, ReadFloats(file + ".rows")), 2e-5) << golden.label;
    OwnCache cache(*model, {0, 256, Eviction::kToken}, 256);
    int64_t row = 0;
    const std::vector<float> logits = RunWithImage(*model, cache.get(), prompt.tokens, *rows, &row, 256);
    const std::vector<float> want = ReadFloats(file + ".logits");
    EXPECT_LT(RelativeError(std::vector<float>(logits.end() - std::ssize(want), logits.end()), want), 1e-4);
  }
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
