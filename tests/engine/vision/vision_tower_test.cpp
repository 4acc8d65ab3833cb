// Vision towers against the reference implementations: pixels, rows, tokens, logits.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "engine/model/weights/model_files.h"
#include "engine/vision/patches.h"
#include "tests/engine/vision/vision_golden.h"

namespace ringside {
namespace {

class VisionTowers : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    auto loaded = Model::Load(VisionFolder(GetParam()), *backend_);
    ASSERT_TRUE(loaded.ok()) << loaded.status().ToString();
    model_ = std::move(*loaded);
    ASSERT_NE(model_->image_format(), nullptr);
  }
  std::string File(const GoldenPicture& golden, const char* kind) const {
    return VisionFolder(GetParam()) + "/" + golden.label + kind;
  }

  const std::unique_ptr<Backend> backend_ = MakeTestBackend();
  std::unique_ptr<Model> model_;
};

INSTANTIATE_TEST_SUITE_P(Families, VisionTowers,
                         ::testing::Values("mistral3", "pixtral", "llava", "gemma3", "qwen2_vl", "qwen2_5_vl",
                                           "qwen3_vl", "qwen3_5"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(VisionTowers, PixelsEqualTheReference) {
  const ModelFiles files = OpenModelFiles(VisionFolder(GetParam())).value();
  const VisionSpec& spec = files.vision->plan.spec;
  for (const GoldenPicture& golden : kGoldenPictures) {
    const auto picture = ReadPicture(GetParam(), golden);
    const std::vector<float> want = ReadFloats(File(golden, ".pixels"));
    Patches patches;
    MakePatches(spec, *picture, DType::kF32, spec.patch_values(), &patches);
    const int64_t width = patches.columns * spec.patch, height = patches.rows * spec.patch;
    ASSERT_EQ(std::ssize(want), 3 * width * height);
    const auto* value = reinterpret_cast<const float*>(patches.values.data());
    for (const PatchPosition& at : patches.positions) {
      for (int64_t c = 0; c < 3; ++c) {
        for (int64_t y = 0; y < spec.patch; ++y) {
          for (int64_t x = 0; x < spec.patch; ++x) {
            const int64_t pixel = (c * height + at.row * spec.patch + y) * width + at.column * spec.patch + x;
            ASSERT_NEAR(*value++, want[static_cast<size_t>(pixel)], 1e-5) << golden.label;
          }
        }
      }
    }
  }
}

TEST_P(VisionTowers, RowsEqualTheReference) {
  for (const GoldenPicture& golden : kGoldenPictures) {
    const auto picture = ReadPicture(GetParam(), golden);
    const double error =
        RelativeError(InputsOf(*EncodePicture(*model_, *picture), *model_), ReadFloats(File(golden, ".rows")));
    RecordProperty(golden.label, std::to_string(error));
    EXPECT_LT(error, 2e-5) << golden.label;
  }
}

TEST_P(VisionTowers, LogitsEqualTheReference) {
  for (const GoldenPicture& golden : kGoldenPictures) {
    const ImagePrompt prompt = ReadImagePrompt(*model_, GetParam(), golden);
    const auto rows = EncodePicture(*model_, *prompt.image.picture);
    OwnCache cache(*model_, {0, 256, Eviction::kToken}, 256);
    int64_t row = 0;
    const std::vector<float> logits = RunWithImage(*model_, cache.get(), prompt.tokens, *rows, &row, 256);
    EXPECT_EQ(row, rows->rows());
    const std::vector<float> want = ReadFloats(File(golden, ".logits"));
    const double error = RelativeError(std::vector<float>(logits.end() - std::ssize(want), logits.end()), want);
    RecordProperty(golden.label, std::to_string(error));
    EXPECT_LT(error, 1e-4) << golden.label;
  }
}

// Positions of the last size are kept.
TEST_P(VisionTowers, EqualPixelsGiveEqualRowsAfterOtherSizes) {
  std::vector<std::shared_ptr<const ImageRows>> rows;
  for (const size_t size : {0, 1, 1, 0}) {
    Picture picture = *ReadPicture(GetParam(), kGoldenPictures[size]);
    picture.digest.fill(static_cast<uint8_t>(rows.size()));  // else the rows are found
    rows.push_back(EncodePicture(*model_, picture));
  }
  const auto equal = [](const ImageRows& a, const ImageRows& b) {
    return a.bytes() == b.bytes() && std::equal(a.Row(0), a.Row(0) + a.bytes(), b.Row(0));
  };
  EXPECT_TRUE(equal(*rows[3], *rows[0]));
  EXPECT_TRUE(equal(*rows[2], *rows[1]));
  EXPECT_NE(rows[0], rows[3]);
}

// Bounded work per call changes no bit; neither do chunks that divide the image.
TEST_P(VisionTowers, PartsEqualTheWhole) {
  const ImagePrompt prompt = ReadImagePrompt(*model_, GetParam(), kGoldenPictures[0]);
  const auto whole = EncodePicture(*model_, *prompt.image.picture);
  const auto other = std::move(Model::Load(VisionFolder(GetParam()), *backend_).value());
  int64_t spent = 0;
  EXPECT_EQ(other->EncodeImage(*prompt.image.picture, 1, &spent), nullptr);  // a layer
  EXPECT_GT(spent, 0);
  const auto parts = EncodePicture(*other, *prompt.image.picture, 1);
  ASSERT_EQ(parts->bytes(), whole->bytes());
  EXPECT_TRUE(std::equal(whole->Row(0), whole->Row(0) + whole->bytes(), parts->Row(0)));
  const int64_t before = spent;
  EXPECT_EQ(other->EncodeImage(*prompt.image.picture, 1, &spent), parts);  // kept
  EXPECT_EQ(spent, before);
  std::vector<std::vector<float>> logits;
  for (const int64_t chunk : {256, 16, 7, 1}) {
    OwnCache cache(*model_, {0, 256, Eviction::kToken}, 256);
    int64_t row = 0;
    logits.push_back(RunWithImage(*model_, cache.get(), prompt.tokens, *whole, &row, chunk));
    EXPECT_EQ(logits.back(), logits.front()) << chunk;
  }
}

TEST_P(VisionTowers, PicturesOutsideTheLimitsAreRefused) {
  const ImageFormat& format = *model_->image_format();
  const std::array<uint8_t, 32> digest{};
  for (const auto& [width, height] : {std::pair<int64_t, int64_t>{0, 4}, {4, -1}, {1 << 20, 1 << 20}, {1000, 2}}) {
    EXPECT_EQ(format.Tokens(width, height, digest).status().code(), StatusCode::kInvalidArgument) << width;
  }
  EXPECT_EQ(format.Tokens({.width = 8, .height = 8, .rgb = {1, 2, 3}, .digest = {}}).status().code(),
            StatusCode::kInvalidArgument);
  EXPECT_TRUE(format.Tokens(8, 8, digest).ok());
}

// Every value of the tower counts, so that no cache passes from one tower to another.
TEST(VisionFingerprint, DependsOnTheTower) {
  const auto backend = MakeTestBackend();
  const auto with = std::move(Model::Load(VisionFolder("pixtral"), *backend).value());
  const std::string folder = ::testing::TempDir() + "vision_fingerprint";
  std::filesystem::remove_all(folder);
  std::filesystem::copy(VisionFolder("pixtral"), folder);
  std::ofstream(folder + "/preprocessor_config.json") << R"({"size": {"longest_edge": 48}, "resample": 2})";
  const auto other = std::move(Model::Load(folder, *backend).value());
  EXPECT_NE(other->fingerprint(), with->fingerprint());
  std::ofstream(folder + "/preprocessor_config.json") << R"({"resample": 7})";
  const auto text = std::move(Model::Load(folder, *backend).value());
  EXPECT_EQ(text->image_format(), nullptr);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace ringside
