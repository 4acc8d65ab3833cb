// The frame watch's verdict on a stream of frames, however it is split.
#include "ws/transport/socket/frame_watch.h"

#include <gtest/gtest.h>

#include <random>

#include "tests/ws/transport/transport_client.h"

namespace ringside::testing {
namespace {

/// The verdict on `bytes` arriving in pieces of `piece`.
uint16_t Watch(const std::string& bytes, size_t piece, int64_t max_message_bytes = 1'000) {
  FrameWatch watch(max_message_bytes);
  for (size_t at = 0; at < bytes.size(); at += piece) {
    if (const uint16_t code = watch.Read(std::string_view(bytes).substr(at, piece)); code != 0) return code;
  }
  return 0;
}

std::string Close(int code, const std::string& reason = "") {
  return MakeFrame(8, std::string{static_cast<char>(code >> 8), static_cast<char>(code & 255)} + reason);
}

class FrameWatchTest : public ::testing::TestWithParam<size_t> {};

TEST_P(FrameWatchTest, AcceptsValidFrames) {
  EXPECT_EQ(Watch(MakeFrame(1, std::string(1'000, 'x')) + MakeFrame(2, "") + MakeFrame(9, "p") + Close(1000, "bye"),
                  GetParam()),
            0);
  EXPECT_EQ(Watch(MakeFrame(1, std::string(500, 'x'), false) + MakeFrame(10, std::string(125, 'p')) +
                      MakeFrame(0, std::string(500, 'x')) + MakeFrame(1, std::string(1'000, 'x')),
                  GetParam()),
            0);
  EXPECT_EQ(Watch(MakeFrame(8, "") + MakeFrame(1, "x"), GetParam()), 0);
  EXPECT_EQ(Watch(Close(4999, "\xC3\xA4\xF0\x9F\x98\x80"), GetParam()), 0);
}

TEST_P(FrameWatchTest, AddsUpFramesOfAMessage) {
  EXPECT_EQ(Watch(MakeFrame(1, std::string(1'001, 'x')), GetParam()), 1009);
  EXPECT_EQ(Watch(MakeFrame(1, std::string(70'000, 'x')), GetParam()), 1009);
  EXPECT_EQ(Watch(MakeFrame(1, std::string(600, 'x'), false) + MakeFrame(9, "") + MakeFrame(0, std::string(401, 'x')),
                  GetParam()),
            1009);
  // Sums that would overflow 64 bits.
  const std::string most("\x80\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x02\x03\x04", 14);
  EXPECT_EQ(Watch(MakeFrame(1, std::string(600, 'x'), false) + most, GetParam()), 1009);
}

TEST_P(FrameWatchTest, NamesCloseErrors) {
  EXPECT_EQ(Watch(MakeFrame(1, "x") + Close(5000), GetParam()), 1002);
  EXPECT_EQ(Watch(Close(65535), GetParam()), 1002);
  for (const char* reason : {"\xff", "\xC3", "\xED\xA0\x80", "\xC0\x80", "\xF4\x90\x80\x80"}) {
    EXPECT_EQ(Watch(Close(1000, reason), GetParam()), 1007);
  }
}

INSTANTIATE_TEST_SUITE_P(Pieces, FrameWatchTest, ::testing::Values(1, 3, 1'000'000));

TEST(FrameWatchBytesTest, SurvivesAnyBytes) {
  std::mt19937 random(11);
  for (int round = 0; round < 20'000; ++round) {
    std::string bytes(random() % 64, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random() % 4 == 0 ? 0x88 : random());
    // The verdict does not depend on the split.
    EXPECT_EQ(Watch(bytes, 1), Watch(bytes, 64));
  }
}

}  // namespace
}  // namespace ringside::testing
