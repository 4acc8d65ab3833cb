#include "base/base64.h"

#include <gtest/gtest.h>

namespace ringside {
namespace {

TEST(Base64, DecodesBase64) {
  EXPECT_EQ(DecodeBase64(""), "");
  EXPECT_EQ(DecodeBase64("Zg=="), "f");
  EXPECT_EQ(DecodeBase64("Zm8="), "fo");
  EXPECT_EQ(DecodeBase64("Zm9v"), "foo");
  EXPECT_EQ(DecodeBase64("Zm9vYmFy"), "foobar");
  EXPECT_EQ(DecodeBase64("+/+/AP8="), std::string("\xFB\xFF\xBF\x00\xFF", 5));
}

TEST(Base64, EncodesBase64) {
  EXPECT_EQ(EncodeBase64(""), "");
  EXPECT_EQ(EncodeBase64("f"), "Zg==");
  EXPECT_EQ(EncodeBase64("fo"), "Zm8=");
  EXPECT_EQ(EncodeBase64("foo"), "Zm9v");
  EXPECT_EQ(EncodeBase64(std::string("\xFB\xFF\xBF\x00\xFF", 5)), "+/+/AP8=");
}

TEST(Base64, RejectsInvalidInput) {
  for (const char* text :
       {"Z", "Zg", "Zg=", "Zg===", "====", "Z===", "Zm9v\n", " Zm9v", "Zm 9v", "Zm=v", "Zm9_", "Zg==Zg=="}) {
    EXPECT_EQ(DecodeBase64(text), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace ringside
