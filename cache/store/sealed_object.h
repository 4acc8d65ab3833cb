// What an encrypted disk tier makes of an object: sealed with its owner's key, each piece under a name that says whose
// and which it is. Pure functions; any thread. Without a key everything stays as it is.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/sealed_box.h"
#include "cache/snapshot.h"

namespace ringside {

/// nullopt in a store that is not encrypted.
using ObjectKey = std::optional<SealKey>;

/// The name a part is stored by: its own tells those who know the model what the part may be.
ChunkHash StoredName(const ObjectKey& key, const ChunkHash& part);

std::string SealManifest(const ObjectKey& key, std::string_view owner, std::string manifest);
/// kCorruption: not this owner's, or changed.
Result<std::string> OpenManifest(const ObjectKey& key, std::string_view owner, std::string stored);

std::string SealPiece(const SealKey& key, std::string_view owner, const ChunkHash& name, size_t piece,
                      std::string_view bytes);
/// Writes stored.size() - kSealOverheadBytes bytes. kCorruption: not this owner's, not this piece, or changed.
Status OpenPieceInto(const SealKey& key, std::string_view owner, const ChunkHash& name, size_t piece,
                     std::string_view stored, std::byte* bytes);

}  // namespace ringside
