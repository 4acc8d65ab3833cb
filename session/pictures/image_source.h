// The bytes of an image that a request holds: base64, or a data URL with base64 (RFC 2397). Pure. THREAD: any.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"

namespace ringside {

/// The error of an image that cannot be read: `what` ends the sentence "Invalid image: ".
inline Status InvalidImage(const std::string& what, const std::string& param = "") {
  return InvalidArgument("Invalid image: " + what + ".", param, "invalid_value");
}

/// False for another URL, and for text that is none.
bool IsDataUrl(std::string_view source);

/// `base64`: `source` is base64 without "data:". The media type is not read: the file's first bytes decide.
/// ERRORS: kInvalidArgument with `param`: image_url_not_allowed for a URL that is no data URL, invalid_value for one
/// without base64, an empty or too long file, or text that is not base64.
Result<std::string> ReadImageSource(std::string_view source, bool base64, const std::string& param);

}  // namespace ringside
