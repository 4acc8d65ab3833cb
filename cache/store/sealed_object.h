// Encryption of disk-tier objects: sealed with the owner's key, each chunk bound to its owner and its position. Without
// a key all functions are the identity. Pure functions. THREAD: any.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/sealed_box.h"
#include "cache/snapshot.h"

namespace ringside {

/// nullopt in a store without encryption.
using ObjectKey = std::optional<SealKey>;

/// The name under which a part is stored. The content hash itself would let anyone who has the model guess the content.
ChunkHash StoredName(const ObjectKey& key, const ChunkHash& part);

std::string SealManifest(const ObjectKey& key, std::string_view owner, std::string manifest);
/// ERRORS: kCorruption: another owner's, or changed.
Result<std::string> OpenManifest(const ObjectKey& key, std::string_view owner, std::string stored);

std::string SealPiece(const SealKey& key, std::string_view owner, const ChunkHash& name, size_t piece,
                      std::string_view bytes);
/// Writes stored.size() - kSealOverheadBytes bytes. ERRORS: kCorruption: another owner's, another chunk, or changed.
Status OpenPieceInto(const SealKey& key, std::string_view owner, const ChunkHash& name, size_t piece,
                     std::string_view stored, std::byte* bytes);

}  // namespace ringside
