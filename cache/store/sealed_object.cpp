#include "cache/store/sealed_object.h"

#include <utility>

namespace ringside {
namespace {

void AppendNumber(std::string& out, uint64_t number) {
  for (int shift = 0; shift < 64; shift += 8) out.push_back(static_cast<char>(number >> shift));
}
uint64_t NumberAt(const uint8_t* bytes) {
  uint64_t number = 0;
  for (size_t i = 8; i-- > 0;) number = number << 8 | bytes[i];
  return number;
}

// Prefix-free: fixed-length fields come before the owner.
std::string ManifestName(std::string_view owner) { return std::string("manifest ").append(owner); }
std::string PieceName(std::string_view owner, const ChunkHash& name, size_t piece) {
  std::string out = "piece ";
  for (const uint64_t number : {name.high, name.low, static_cast<uint64_t>(piece)}) AppendNumber(out, number);
  return out.append(owner);
}

}  // namespace

ChunkHash StoredName(const ObjectKey& key, const ChunkHash& part) {
  if (!key) return part;
  std::string name;
  for (const uint64_t number : {part.high, part.low}) AppendNumber(name, number);
  const auto digest = KeyedName(*key, name);
  return {NumberAt(digest.data()), NumberAt(digest.data() + 8)};
}

std::string SealManifest(const ObjectKey& key, std::string_view owner, std::string manifest) {
  return key ? Seal(*key, ManifestName(owner), manifest) : std::move(manifest);
}
Result<std::string> OpenManifest(const ObjectKey& key, std::string_view owner, std::string stored) {
  if (!key) return stored;
  return OpenSealed(*key, ManifestName(owner), stored);
}

std::string SealPiece(const SealKey& key, std::string_view owner, const ChunkHash& name, size_t piece,
                      std::string_view bytes) {
  return Seal(key, PieceName(owner, name, piece), bytes);
}
Status OpenPieceInto(const SealKey& key, std::string_view owner, const ChunkHash& name, size_t piece,
                     std::string_view stored, std::byte* bytes) {
  return OpenSealedInto(key, PieceName(owner, name, piece), stored, bytes);
}

}  // namespace ringside
