// Base64 (RFC 4648, section 4). Pure; any thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace ringside {

/// The bytes that `text` stands for; nothing if it is not base64 with its padding, in lines or with anything around it.
std::optional<std::string> DecodeBase64(std::string_view text);
/// With its padding. At most 1 GiB of bytes.
std::string EncodeBase64(std::string_view bytes);

}  // namespace ringside
