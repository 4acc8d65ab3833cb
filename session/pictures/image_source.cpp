#include "session/pictures/image_source.h"

#include <algorithm>
#include <cctype>
#include <optional>

#include "base/base64.h"
#include "base/limits.h"

namespace ringside {
namespace {

bool StartsWithNoCase(std::string_view text, std::string_view start) {
  return text.size() >= start.size() && std::equal(start.begin(), start.end(), text.begin(), [](char a, char b) {
           return a == std::tolower(static_cast<unsigned char>(b));
         });
}

constexpr std::string_view kData = "data:";

}  // namespace

bool IsDataUrl(std::string_view source) { return StartsWithNoCase(source, kData); }

Result<std::string> ReadImageSource(std::string_view source, bool base64, const std::string& param) {
  if (!base64) {
    constexpr std::string_view kBase64 = ";base64";
    if (!IsDataUrl(source)) {
      return InvalidArgument(
          "This server does not fetch images from URLs. Send the image itself as a data URL "
          "(data:image/png;base64,...).",
          param, "image_url_not_allowed");
    }
    const size_t comma = source.find(',');
    if (comma == source.npos || !source.substr(0, comma).ends_with(kBase64)) {
      return InvalidImage("a data URL must have the form data:image/png;base64,...", param);
    }
    source.remove_prefix(comma + 1);
  }
  constexpr auto kMost = static_cast<size_t>(limits::kMaxImageFileBytes);
  if (source.size() / 4 * 3 > kMost + 3) {
    return InvalidImage("it has more than " + std::to_string(kMost >> 20) + " MiB", param);
  }
  std::optional<std::string> bytes = DecodeBase64(source);
  if (!bytes) return InvalidImage("its data is not base64 with padding and without line breaks", param);
  if (bytes->empty()) return InvalidImage("it has no bytes", param);
  return *std::move(bytes);
}

}  // namespace ringside
