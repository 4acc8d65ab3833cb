// Ids of timeline tokens whose embedding is a row of a vision tower. An id contains a hash of the picture and of the
// row's number, so that equal ids mean equal inputs: prefix comparison, cache keys, journal and snapshots need no other
// code for images. Such an id is in no vocabulary. Pure. THREAD: any.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <cstring>

#include "engine/text/tokenizer.h"

namespace ringside {

constexpr TokenId kFirstImageToken = TokenId{1} << 30;

constexpr bool IsImageToken(TokenId id) { return id >= kFirstImageToken; }

/// The id of a picture's row `index`, counted without markers.
inline TokenId ImageToken(const std::array<uint8_t, 32>& digest, int64_t index) {
  static_assert(std::endian::native == std::endian::little);  // ids are stored
  uint64_t hash;
  std::memcpy(&hash, digest.data(), sizeof hash);
  hash += (static_cast<uint64_t>(index) + 1) * 0x9e3779b97f4a7c15u;
  // The finaliser of SplitMix64 (Steele et al. 2014).
  hash = (hash ^ (hash >> 30)) * 0xbf58476d1ce4e5b9u;
  hash = (hash ^ (hash >> 27)) * 0x94d049bb133111ebu;
  return kFirstImageToken | static_cast<TokenId>((hash ^ (hash >> 31)) >> 34);
}

/// ImageToken of a model with positions of rows and columns (image_grid.h): the lowest bit tells whether the token
/// begins a row of the image.
inline TokenId GridImageToken(const std::array<uint8_t, 32>& digest, int64_t index, bool begins_row) {
  return (ImageToken(digest, index) & ~TokenId{1}) | TokenId{begins_row};
}
constexpr bool BeginsImageRow(TokenId id) { return (id & 1) != 0; }

}  // namespace ringside
