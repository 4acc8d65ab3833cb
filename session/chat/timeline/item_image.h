// Images of a message. The message's text has kImageMark at the place of each image, in order: texts are trimmed,
// joined and compared without regard to images. Plain values, cheap to copy. THREAD: any.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/sha256.h"

namespace ringside {

/// U+FFFC, OBJECT REPLACEMENT CHARACTER. In a message without images it is a character like others.
inline constexpr std::string_view kImageMark = "\xEF\xBF\xBC";

/// An image file as the client sent it, and its size in pixels.
struct ImageFile {
  std::string bytes;
  int64_t width = 0, height = 0;
  Sha256Digest digest{};

  /// Size of its decoded pixels: RGB.
  int64_t decoded_bytes() const { return width * height * 3; }
};

/// Images are equal if their files are.
struct ItemImage {
  std::shared_ptr<const ImageFile> file;  // not null once read
  friend bool operator==(const ItemImage& a, const ItemImage& b) {
    return a.file == b.file || (a.file && b.file && a.file->digest == b.file->digest);
  }
};

/// Number of kImageMark in a text.
inline size_t CountImageMarks(std::string_view text) {
  size_t count = 0;
  for (size_t at = text.find(kImageMark); at != text.npos; at = text.find(kImageMark, at + kImageMark.size())) ++count;
  return count;
}

/// The parts of a message's text: texts, and between them its images. "" where two images follow each other.
inline std::vector<std::string_view> SplitAtImages(std::string_view text, size_t images) {
  std::vector<std::string_view> texts;
  for (; images > 0; --images) {
    const size_t at = text.find(kImageMark);
    if (at == text.npos) break;
    texts.push_back(text.substr(0, at));
    text.remove_prefix(at + kImageMark.size());
  }
  texts.push_back(text);
  return texts;
}

/// "image/png", "image/jpeg" or "image/webp", by the first bytes; "" for other files.
inline std::string_view MediaTypeOf(std::string_view file) {
  if (file.starts_with("\x89PNG\r\n\x1A\n")) return "image/png";
  if (file.starts_with("\xFF\xD8\xFF")) return "image/jpeg";
  if (file.starts_with("RIFF") && file.substr(0, 12).ends_with("WEBP")) return "image/webp";
  return "";
}

}  // namespace ringside
