// Public ids: a prefix and 128 random bits of the kernel's generator in base62. An id is no credential (every look-up
// checks its owner), yet nobody can guess one. Any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace ringside {

/// "conv_" + 22 characters of [0-9A-Za-z]. `prefix` is "conv_", "resp_" or "msg_".
std::string MakeId(std::string_view prefix);
/// 64 random bits of the kernel's generator.
uint64_t RandomBits();

}  // namespace ringside
