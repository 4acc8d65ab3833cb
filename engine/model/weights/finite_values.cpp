#include "engine/model/weights/finite_values.h"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include "base/check.h"
#include "kernels/formats/file_formats.h"

namespace ringside {
namespace {

constexpr uint16_t kHalfExponent = 0x7c00, kBf16Exponent = 0x7f80;
constexpr uint32_t kFloatExponent = 0x7f800000;
constexpr uint8_t kLargestMxfp4Exponent = 252;  // 12 times half of 2^126 is the largest that float32 holds
constexpr float kLargestE4M3 = 448;

template <class Word>
Word Read(const std::byte* p) {
  Word word;
  std::memcpy(&word, p, sizeof(Word));
  return word;
}

// True if no word has all bits of `exponent` set. Eight bytes at a time: adding the exponent's lowest bit carries into
// the word's sign, which is masked, only where all bits of the exponent are set.
template <class Word>
bool NoneHas(Word exponent, std::span<const std::byte> bytes) {
  constexpr uint64_t kOnes = ~uint64_t{0} / std::numeric_limits<Word>::max();
  constexpr auto kSign = static_cast<Word>(std::numeric_limits<Word>::max() / 2 + 1);
  const uint64_t exponents = kOnes * exponent, lowest = kOnes * static_cast<Word>(exponent & -exponent);
  uint64_t found = 0;
  size_t i = 0;
  for (; i + sizeof(found) <= bytes.size(); i += sizeof(found)) {
    found |= (Read<uint64_t>(bytes.data() + i) & exponents) + lowest;
  }
  for (; i + sizeof(Word) <= bytes.size(); i += sizeof(Word)) {
    found |= static_cast<Word>((Read<Word>(bytes.data() + i) & exponent) + (exponent & -exponent));
  }
  return (found & (kOnes * kSign)) == 0;
}

bool HasFiniteHalf(const std::byte* p) { return (Read<uint16_t>(p) & kHalfExponent) != kHalfExponent; }

bool IsFiniteMxfp4Block(const std::byte* block) { return static_cast<uint8_t>(*block) <= kLargestMxfp4Exponent; }

bool IsFiniteE4M3Block(const std::byte* block) {
  uint8_t found = 0;
  for (int i = 4; i < 36; ++i) found |= static_cast<uint8_t>((static_cast<uint8_t>(block[i]) & 0x7f) == 0x7f);
  return found == 0 && std::isfinite(Read<float>(block) * kLargestE4M3);
}

// Types whose scales are other numbers than float16: decodes each block.
bool AllBlocksAreFinite(DType dtype, std::span<const std::byte> bytes) {
  const DTypeTraits& traits = Traits(dtype);
  const auto blocks = static_cast<int64_t>(bytes.size()) / traits.block_bytes * (traits.block_elements / 32);
  bool finite = true;
  for (int64_t b = 0; b < blocks; ++b) {
    FileBlock block{};
    ReadFileBlock(dtype, reinterpret_cast<const uint8_t*>(bytes.data()), b, &block);
    finite &= HasFiniteScales(dtype, block);
  }
  return finite;
}

template <class IsFinite>
bool AllBlocks(size_t block_bytes, std::span<const std::byte> bytes, const IsFinite& is_finite) {
  bool finite = true;
  for (size_t i = 0; i < bytes.size(); i += block_bytes) finite &= is_finite(bytes.data() + i);
  return finite;
}

}  // namespace

bool AreFinite(DType dtype, std::span<const std::byte> bytes) {
  const auto block_bytes = static_cast<size_t>(Traits(dtype).block_bytes);
  CHECK_EQ(bytes.size() % block_bytes, 0u);
  if (dtype == DType::kF32) return NoneHas(kFloatExponent, bytes);
  if (dtype == DType::kF16) return NoneHas(kHalfExponent, bytes);
  if (dtype == DType::kBF16) return NoneHas(kBf16Exponent, bytes);
  const auto [first, second] = Traits(dtype).half_scales;
  if (dtype == DType::kMXFP4) return AllBlocks(block_bytes, bytes, IsFiniteMxfp4Block);
  if (dtype == DType::kScaledE4M3) return AllBlocks(block_bytes, bytes, IsFiniteE4M3Block);
  if (first < 0) return AllBlocksAreFinite(dtype, bytes);
  return AllBlocks(block_bytes, bytes, [&](const std::byte* p) {
    return HasFiniteHalf(p + first) && (second < 0 || HasFiniteHalf(p + second));
  });
}

}  // namespace ringside
