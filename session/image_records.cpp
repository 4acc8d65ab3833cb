#include "session/image_records.h"

#include <algorithm>
#include <set>
#include <utility>

#include "base/limits.h"
#include "session/records.h"

namespace ringside {

void WriteDigests(const std::vector<ItemImage>& images, ByteWriter* out) {
  out->Unsigned(images.size());
  for (const ItemImage& image : images) {
    for (const uint8_t byte : image.file->digest) out->Byte(byte);
  }
}

std::vector<ItemImage> ReadDigests(ByteReader* in) {
  std::vector<ItemImage> images(in->Count(sizeof(Sha256Digest)));
  for (ItemImage& image : images) {
    ImageFile file;
    for (uint8_t& byte : file.digest) byte = in->Byte();
    image.file = std::make_shared<const ImageFile>(std::move(file));
  }
  return images;
}

JournalRecord Encode(const ImageFile& image) {
  ByteWriter out;
  for (const uint8_t byte : image.digest) out.Byte(byte);
  out.Signed(image.width);
  out.Signed(image.height);
  out.String(image.bytes);
  return {static_cast<uint8_t>(RecordType::kImage), out.Take()};
}

std::vector<JournalRecord> ImageRecords(const TimelinePatch& patch, const Timeline& base) {
  std::set<Sha256Digest> known;
  std::vector<JournalRecord> records;
  if (std::ranges::all_of(patch.items, [](const Item& item) { return item.images.empty(); })) return records;
  for (const Item& item : base.items()) {
    for (const ItemImage& image : item.images) known.insert(image.file->digest);
  }
  for (const Item& item : patch.items) {
    for (const ItemImage& image : item.images) {
      if (known.insert(image.file->digest).second) records.push_back(Encode(*image.file));
    }
  }
  return records;
}

Status ImageFiles::Add(std::string_view record, bool checked) {
  ByteReader in(record);
  ImageFile file;
  for (uint8_t& byte : file.digest) byte = in.Byte();
  file.width = in.Signed();
  file.height = in.Signed();
  file.bytes = in.String();
  const bool sized = file.width >= 1 && file.height >= 1 && file.width <= limits::kMaxImagePixels &&
                     file.height <= limits::kMaxImagePixels / file.width;
  if (!in.done() || !sized || (checked && Sha256(file.bytes) != file.digest)) {
    return Corruption("session: a damaged record: image");
  }
  const Sha256Digest digest = file.digest;
  files_[digest] = std::make_shared<const ImageFile>(std::move(file));
  return Status::Ok();
}

Status ImageFiles::Resolve(TimelinePatch* patch) const {
  for (Item& item : patch->items) {
    for (ItemImage& image : item.images) {
      const auto found = files_.find(image.file->digest);
      if (found == files_.end()) return Corruption("session: an item names an image that is not stored");
      image.file = found->second;
    }
  }
  return Status::Ok();
}

}  // namespace ringside
