// Base64 (RFC 4648, section 4). Pure functions. THREAD: any.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace ringside {

/// Decodes `text`; nullopt unless it is padded base64 without line breaks.
std::optional<std::string> DecodeBase64(std::string_view text);
/// Encodes with padding. REQUIRES: at most 1 GiB.
std::string EncodeBase64(std::string_view bytes);

}  // namespace ringside
