// Vision towers on CUDA, if there is a device: rows and logits against the reference implementations.
#include <gtest/gtest.h>

#include <string>
#include <tuple>

#include "tests/engine/vision/vision_golden.h"
#include "tests/kernels/devices.h"

namespace ringside {
namespace {

class DeviceVisionTowers : public testing::DeviceTest,
                           public ::testing::WithParamInterface<std::tuple<const char*, const char*>> {
 protected:
  void SetUp() override { Use(std::get<0>(GetParam())); }
};
INSTANTIATE_TEST_SUITE_P(All, DeviceVisionTowers,
                         ::testing::Combine(::testing::Values("cuda_bf16", "cuda_f16"),
                                            ::testing::Values("mistral3", "pixtral", "llava", "gemma3", "qwen2_vl",
                                                              "qwen2_5_vl", "qwen3_vl", "qwen3_5")),
                         [](const auto& info) {
                           return std::string(std::get<0>(info.param)) + "_" + std::get<1>(info.param);
                         });

TEST_P(DeviceVisionTowers, MatchTheReference) {
  const std::string name = std::get<1>(GetParam());
  auto loaded = Model::Load(VisionFolder(name), *backend_);
  ASSERT_TRUE(loaded.ok()) << loaded.status().ToString();
  Model& model = **loaded;
  ASSERT_NE(model.image_format(), nullptr);
  const double rounding = testing::Rounding(type_);
  for (const GoldenPicture& golden : kGoldenPictures) {
    const std::string file = VisionFolder(name) + "/" + golden.label;
    const ImagePrompt prompt = ReadImagePrompt(model, name, golden);
    const auto rows = EncodePicture(model, *prompt.image.picture);
    const double of_rows = NormError(InputsOf(*rows, model), ReadFloats(file + ".rows"));
    OwnCache cache(model, {0, 256, Eviction::kToken}, 256, type_);
    int64_t row = 0;
    const std::vector<float> logits = RunWithImage(model, cache.get(), prompt.tokens, *rows, &row, 256);
    const std::vector<float> want = ReadFloats(file + ".logits");
    const double of_logits = NormError(std::vector<float>(logits.end() - std::ssize(want), logits.end()), want);
    std::printf("%s %s %s: rows %.2e, logits %.2e\n", std::get<0>(GetParam()), name.c_str(), golden.label, of_rows,
                of_logits);
    // Three roundings of the element type: weights, activations and cache are all stored in it. The logits add those
    // of the text model, whose random weights amplify an error up to threefold in both types.
    EXPECT_LT(of_rows, 3 * rounding) << golden.label;
    EXPECT_LT(of_logits, 10 * rounding) << golden.label;
  }
}

}  // namespace
}  // namespace ringside
