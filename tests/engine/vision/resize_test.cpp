// Resampling, byte for byte as Pillow's.
#include "engine/vision/resize.h"

#include <gtest/gtest.h>

#include "tests/engine/vision/vision_golden.h"

namespace ringside {
namespace {

struct Resized {
  const char* label;
  int64_t width, height;
  Resampling resampling;
};

TEST(Resize, EqualsPillow) {
  const auto picture = ReadPicture("mistral3", kGoldenPictures[1]);
  for (const Resized& want : {Resized{"small", 40, 24, Resampling::kBicubic},
                              {"larger", 120, 70, Resampling::kBicubic},
                              {"bilinear", 33, 80, Resampling::kBilinear}}) {
    const std::vector<uint8_t> got = Resize(picture->rgb, {picture->width, want.width, 0, want.width},
                                            {picture->height, want.height, 0, want.height}, want.resampling);
    EXPECT_EQ(got, ReadBytes(GoldenFolder(std::string("vision/resize_") + want.label + ".rgb"))) << want.label;
  }
}

TEST(Resize, APartEqualsThatPartOfTheWhole) {
  const auto picture = ReadPicture("mistral3", kGoldenPictures[1]);
  const std::vector<uint8_t> whole = Resize(picture->rgb, {97, 40, 0, 40}, {61, 24, 0, 24}, Resampling::kBicubic);
  const std::vector<uint8_t> part = Resize(picture->rgb, {97, 40, 7, 20}, {61, 24, 3, 10}, Resampling::kBicubic);
  for (size_t y = 0; y < 10; ++y) {
    for (size_t x = 0; x < 20 * 3; ++x) EXPECT_EQ(part[y * 60 + x], whole[(y + 3) * 120 + 21 + x]);
  }
}

}  // namespace
}  // namespace ringside
