#include "session/ids.h"

#include <sys/random.h>

#include <array>
#include <cerrno>

#include "base/check.h"

namespace ringside {
namespace {

void FillRandom(void* out, size_t size) {
  auto* bytes = static_cast<unsigned char*>(out);
  size_t done = 0;
  while (done < size) {
    const ssize_t got = getrandom(bytes + done, size - done, 0);
    if (got < 0 && errno == EINTR) continue;
    CHECK_GT(got, 0);
    done += static_cast<size_t>(got);
  }
}

}  // namespace

std::string MakeId(std::string_view prefix) {
  static constexpr char kDigits[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
  static constexpr int kLength = 22;  // 62^22 > 2^128
  std::array<uint32_t, 4> words;
  FillRandom(words.data(), sizeof(words));
  std::string id(prefix);
  for (int i = 0; i < kLength; ++i) {
    uint64_t remainder = 0;  // long division of the 128-bit number by 62
    for (uint32_t& word : words) {
      const uint64_t part = remainder << 32 | word;
      word = static_cast<uint32_t>(part / 62);
      remainder = part % 62;
    }
    id.push_back(kDigits[remainder]);
  }
  return id;
}

uint64_t RandomBits() {
  uint64_t bits;
  FillRandom(&bits, sizeof(bits));
  return bits;
}

}  // namespace ringside
