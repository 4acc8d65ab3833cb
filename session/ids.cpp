#include "session/ids.h"

#include <sys/random.h>
#include <xxhash.h>

#include <array>
#include <atomic>
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

constexpr char kDigits[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
constexpr size_t kIdDigits = 22;  // 62^22 > 2^128
constexpr size_t kResponseDigits = 10;

/// Appends a 128-bit number in base 62.
void AppendDigits(std::string& id, std::array<uint32_t, 4> words) {
  for (size_t i = 0; i < kIdDigits; ++i) {
    uint64_t remainder = 0;  // long division by 62
    for (uint32_t& word : words) {
      const uint64_t part = remainder << 32 | word;
      word = static_cast<uint32_t>(part / 62);
      remainder = part % 62;
    }
    id.push_back(kDigits[remainder]);
  }
}

}  // namespace

std::string MakeId(std::string_view prefix) {
  std::array<uint32_t, 4> words;
  FillRandom(words.data(), sizeof(words));
  std::string id(prefix);
  AppendDigits(id, words);
  return id;
}

bool IsId(std::string_view prefix, std::string_view id) {
  if (!id.starts_with(prefix) || id.size() != prefix.size() + kIdDigits) return false;
  return id.substr(prefix.size()).find_first_not_of(kDigits) == std::string_view::npos;
}

std::string HashedId(std::string_view prefix, std::string_view text) {
  const XXH128_hash_t hash = XXH3_128bits(text.data(), text.size());
  std::string id(prefix);
  AppendDigits(id, {static_cast<uint32_t>(hash.high64 >> 32), static_cast<uint32_t>(hash.high64),
                    static_cast<uint32_t>(hash.low64 >> 32), static_cast<uint32_t>(hash.low64)});
  return id;
}

std::string MakeResponseId(std::string_view session_key) {
  const std::string_view part = session_key.substr(session_key.find('_') + 1);
  return "resp_" + std::string(part) + MakeId("").substr(0, kResponseDigits);
}

std::string_view SessionPartOf(std::string_view response_id) {
  constexpr std::string_view kPrefix = "resp_";
  if (!response_id.starts_with(kPrefix) || response_id.size() != kPrefix.size() + kIdDigits + kResponseDigits)
    return {};
  return response_id.substr(kPrefix.size(), kIdDigits);
}

uint64_t NextConnection() {
  static std::atomic<uint64_t> next{0};
  return ++next;
}

uint64_t RandomBits() {
  uint64_t bits;
  FillRandom(&bits, sizeof(bits));
  return bits;
}

}  // namespace ringside
