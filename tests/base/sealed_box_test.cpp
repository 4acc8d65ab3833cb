#include "base/sealed_box.h"

#include <gtest/gtest.h>

#include <set>

namespace ringside {
namespace {

TEST(SealedBoxTest, RoundTripsSealedData) {
  const SealKey key = SealKey::Random();
  for (const size_t bytes : {0, 1, 15, 16, 17, 1000, 600'000}) {
    const std::string plain(bytes, 'p');
    const std::string sealed = Seal(key, "name", plain);
    EXPECT_EQ(sealed.size(), bytes + kSealOverheadBytes);
    EXPECT_EQ(*OpenSealed(key, "name", sealed), plain);
    EXPECT_EQ(*OpenSealed(SealKey(key.bytes()), "name", sealed), plain);
  }
}

TEST(SealedBoxTest, OpensWithTheRightKeyOnly) {
  const SealKey key = SealKey::Random();
  const std::string sealed = Seal(key, "name", "a secret");
  EXPECT_EQ(sealed.find("secret"), std::string::npos);
  EXPECT_EQ(OpenSealed(SealKey::Random(), "name", sealed).status().code(), StatusCode::kCorruption);
  for (const char* other : {"", "nam", "name2", "Name"}) EXPECT_FALSE(OpenSealed(key, other, sealed).ok()) << other;
  for (size_t i = 0; i < sealed.size(); ++i) {
    std::string changed = sealed;
    changed[i] ^= 1;
    EXPECT_FALSE(OpenSealed(key, "name", changed).ok()) << "byte " << i;
    EXPECT_FALSE(OpenSealed(key, "name", sealed.substr(0, i)).ok()) << "cut to " << i;
  }
  EXPECT_FALSE(OpenSealed(key, "name", sealed + '\0').ok());
}

TEST(SealedBoxTest, CiphertextsOfEqualTextDiffer) {
  const SealKey key = SealKey::Random();
  std::set<std::string> nonces, all;
  for (int i = 0; i < 1000; ++i) {
    const std::string sealed = Seal(key, "name", "text");
    nonces.insert(sealed.substr(0, 12));
    all.insert(sealed);
  }
  EXPECT_EQ(nonces.size(), 1000u);
  EXPECT_EQ(all.size(), 1000u);
}

// Test case 16 of "The Galois/Counter Mode of Operation" (McGrew, Viega): the box is standard AES-256-GCM.
TEST(SealedBoxTest, IsAes256Gcm) {
  const auto bytes = [](std::string_view hex) {
    std::string out;
    for (size_t i = 0; i < hex.size(); i += 2) {
      out.push_back(static_cast<char>(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16)));
    }
    return out;
  };
  const SealKey key(bytes("feffe9928665731c6d6a8f9467308308feffe9928665731c6d6a8f9467308308"));
  const std::string sealed = bytes(
      "cafebabefacedbaddecaf888"
      "522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa"
      "8cb08e48590dbb3da7b08b1056828838c5f61e6393ba7a0abcc9f662"
      "76fc6ece0f4e1768cddf8853bb2d551b");
  const auto plain = OpenSealed(key, bytes("feedfacedeadbeeffeedfacedeadbeefabaddad2"), sealed);
  ASSERT_TRUE(plain.ok());
  EXPECT_EQ(*plain, bytes("d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a72"
                          "1c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b39"));
}

TEST(SealedBoxTest, KeyedNameRequiresTheKey) {
  const SealKey a = SealKey::Random(), b = SealKey::Random();
  EXPECT_EQ(KeyedName(a, "part"), KeyedName(a, "part"));
  EXPECT_NE(KeyedName(a, "part"), KeyedName(b, "part"));
  EXPECT_NE(KeyedName(a, "part"), KeyedName(a, "parT"));
}

}  // namespace
}  // namespace ringside
