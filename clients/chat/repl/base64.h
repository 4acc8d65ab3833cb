// Base64 (RFC 4648, section 4), with padding. Pure. THREAD: any.
#pragma once

#include <string>
#include <string_view>

namespace ringside::client {

/// REQUIRES: at most 1 GiB.
std::string Base64(std::string_view bytes);

}  // namespace ringside::client
