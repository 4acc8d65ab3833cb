#include "session/turn/turn_spec.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace ringside {

namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD; it has the length of kImageMark

void ReplaceImageMarks(std::string* text, size_t from) {
  for (size_t at = text->find(kImageMark, from); at != text->npos; at = text->find(kImageMark, at)) {
    text->replace(at, kImageMark.size(), kReplacement);
  }
}

}  // namespace

void AddPart(std::string_view text, NewItem* item) {
  item->part_begins.push_back(item->text.size());
  item->text += text;
  if (!item->images.empty()) ReplaceImageMarks(&item->text, item->part_begins.back());
}

void AddImage(NewImage image, NewItem* item) {
  if (item->images.empty()) ReplaceImageMarks(&item->text, 0);
  item->part_begins.push_back(item->text.size());
  item->text += kImageMark;
  item->images.push_back(std::move(image));
}

std::vector<NewImage> ImagesOf(const Item& item) {
  std::vector<NewImage> images;
  for (const ItemImage& image : item.images) images.push_back({.image = image});
  return images;
}

void JoinParts(std::string_view separator, NewItem* item, bool trims) {
  if (item->part_begins.empty()) return;
  const std::string_view text = item->text;
  const size_t texts_end = std::min(static_cast<size_t>(item->calls_at), text.size());
  std::string joined;
  joined.reserve(text.size() + item->part_begins.size() * separator.size());
  for (size_t i = 0; i < item->part_begins.size(); ++i) {
    const size_t begin = i == 0 ? 0 : item->part_begins[i];
    const size_t end = i + 1 < item->part_begins.size() ? item->part_begins[i + 1] : texts_end;
    const std::string_view part = text.substr(begin, end - begin);
    if (i > 0) joined += separator;
    joined += trims ? TrimText(part) : part;
  }
  if (item->calls_at >= 0) item->calls_at = std::ssize(joined);
  joined += text.substr(texts_end);
  item->text = std::move(joined);
  item->part_begins.clear();
}

}  // namespace ringside
