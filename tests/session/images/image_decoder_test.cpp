// The server's side of the decoder: replies, failures, limits, the cache of pictures.
#include "session/pictures/image_decoder.h"

#include <gmock/gmock.h>

#include <fstream>
#include <sstream>

#include "base/check.h"
#include "base/image_reply.h"
#include "session/pictures/picture_cache.h"
#include "tests/golden_folder.h"

namespace ringside {
namespace {

std::string ReadImage(const std::string& name) {
  std::ifstream file(GoldenFolder("../decoder/images/") + name, std::ios::binary);
  std::stringstream bytes;
  bytes << file.rdbuf();
  CHECK(!bytes.str().empty());
  return bytes.str();
}

Status Free(int64_t) { return Status::Ok(); }

ImageDecoderOptions Options() { return {.program = ImageDecoder::FindProgram()}; }

TEST(ImageDecoder, DecodesEachFormat) {
  ImageDecoder decoder(Options());
  for (const char* name : {"rgb.png", "baseline.jpg", "lossy.webp", "lossless.webp", "progressive.jpg"}) {
    int64_t charged = 0;
    const auto picture = decoder.Decode("me", ReadImage(name), [&](int64_t bytes) {
      charged = bytes;
      return Status::Ok();
    });
    ASSERT_TRUE(picture.ok()) << name << ": " << picture.status().ToString();
    EXPECT_EQ(picture->width, 16) << name;
    EXPECT_EQ(picture->height, 12) << name;
    EXPECT_EQ(picture->rgb.size(), 16U * 12 * 3) << name;
    EXPECT_EQ(charged, 16 * 12 * 3) << name;
    EXPECT_NEAR(picture->rgb[0], 200, 8) << name;
  }
}

TEST(ImageDecoder, FaultsAreErrorsOfTheFile) {
  ImageDecoder decoder(Options());
  const std::string png = ReadImage("rgb.png");
  for (const std::string& file : {png.substr(0, png.size() / 2), std::string("GIF89a"), ReadImage("animated.webp")}) {
    const Status status = decoder.Decode("me", file, Free).status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_EQ(status.reason(), "invalid_value");
  }
  ImageDecoderOptions few = Options();
  few.max_pixels = 100;
  EXPECT_THAT(ImageDecoder(few).Decode("me", png, Free).status().message(),
              ::testing::HasSubstr("more than 100 pixels"));
}

TEST(ImageDecoder, ARefusedChargeEndsTheDecoding) {
  ImageDecoder decoder(Options());
  const auto refuse = [](int64_t) { return Overloaded("full"); };
  EXPECT_EQ(decoder.Decode("me", ReadImage("rgb.png"), refuse).status().message(), "full");
  EXPECT_TRUE(decoder.Decode("me", ReadImage("rgb.png"), Free).ok()) << "its place is free again";
}

TEST(ImageDecoder, OtherProgramsDoNoHarm) {
  const std::string file = ReadImage("rgb.png");
  const auto run = [&](const std::string& program, int64_t seconds) {
    ImageDecoderOptions options = Options();
    options.program = program;
    options.seconds = seconds;
    return ImageDecoder(options).Decode("me", file, Free).status();
  };
  EXPECT_EQ(run("/no/such/program", 10).code(), StatusCode::kUnavailable);
  EXPECT_THAT(run("/bin/false", 10).message(), ::testing::HasSubstr("its decoder failed"));
  EXPECT_THAT(run("/bin/echo", 10).message(), ::testing::HasSubstr("its decoder failed")) << "no header";
  EXPECT_THAT(run("/bin/sleep", 1).message(), ::testing::HasSubstr("takes too long")) << "it is killed";
}

TEST(ImageReplies, HostileHeadersAreNone) {
  const auto parse = [](const ImageReplyHeader& header, int64_t most = 1000) {
    const auto bytes = EncodeImageReply(header);
    return ParseImageReply(bytes, most);
  };
  ASSERT_TRUE(parse({ImageReply::kDecoded, 10, 100}));
  EXPECT_EQ(parse({ImageReply::kDecoded, 10, 100})->height, 100U);
  EXPECT_TRUE(parse({ImageReply::kAnimated, 0, 0}));
  EXPECT_FALSE(parse({ImageReply::kAnimated, 1, 1})) << "a failure has no picture";
  EXPECT_FALSE(parse({ImageReply::kDecoded, 0, 100}));
  EXPECT_FALSE(parse({ImageReply::kDecoded, 11, 100}));
  EXPECT_FALSE(parse({ImageReply::kDecoded, UINT32_MAX, UINT32_MAX}));
  EXPECT_FALSE(parse({static_cast<ImageReply>(6), 0, 0}));
  auto bytes = EncodeImageReply({ImageReply::kDecoded, 1, 1});
  EXPECT_FALSE(ParseImageReply(std::span(bytes).first(bytes.size() - 1), 10));
  bytes[5] = 1;  // a status is one byte
  EXPECT_FALSE(ParseImageReply(bytes, 10));
  bytes[0] = 0;
  EXPECT_FALSE(ParseImageReply(bytes, 10));
}

TEST(PictureCache, KeepsTheNewestWithinItsBytes) {
  PictureCache cache(100);
  const auto add = [&](const std::string& owner, uint8_t name, size_t bytes) {
    Picture picture{.rgb = std::vector<uint8_t>(bytes)};
    picture.digest[0] = name;
    cache.Add(owner, std::make_shared<const Picture>(std::move(picture)));
  };
  const auto has = [&](const std::string& owner, uint8_t name) {
    Sha256Digest digest{};
    digest[0] = name;
    return cache.Find(owner, digest) != nullptr;
  };
  add("a", 1, 40);
  add("a", 2, 40);
  EXPECT_TRUE(has("a", 1)) << "now used after the second";
  EXPECT_FALSE(has("b", 1)) << "another owner's";
  add("a", 3, 40);
  EXPECT_TRUE(has("a", 1));
  EXPECT_FALSE(has("a", 2));
  EXPECT_EQ(cache.bytes(), 80);
  add("a", 4, 200);
  EXPECT_FALSE(has("a", 4)) << "larger than the cache";
  EXPECT_LE(cache.bytes(), 100);
}

}  // namespace
}  // namespace ringside
