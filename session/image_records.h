// Journal records of images: each file once, before the records whose items name it by its digest. Decoding treats
// input as hostile (kCorruption). Plain values.
#pragma once

#include <map>
#include <memory>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/status.h"
#include "session/chat/timeline/timeline.h"
#include "session/journal/journal.h"

namespace ringside {

/// An item's images: their digests, and none of their contents (ImageFiles::Resolve).
void WriteDigests(const std::vector<ItemImage>& images, ByteWriter* out);
std::vector<ItemImage> ReadDigests(ByteReader* in);

JournalRecord Encode(const ImageFile& image);
/// The records of the images that the patch adds to `base`, each once.
std::vector<JournalRecord> ImageRecords(const TimelinePatch& patch, const Timeline& base);

/// Image files by digest, of the items that a session's later records name. Items are decoded with digests only.
class ImageFiles {
 public:
  /// ERRORS: kCorruption for bytes that are no image record. `checked`: also if its digest is not that of its bytes.
  Status Add(std::string_view record, bool checked = false);
  /// Gives the items of a patch their files. ERRORS: kCorruption if one is missing.
  Status Resolve(TimelinePatch* patch) const;

 private:
  std::map<Sha256Digest, std::shared_ptr<const ImageFile>> files_;
};

}  // namespace ringside
