// Public ids: a prefix and 128 random bits of the kernel's generator in base62. An id is no credential (every look-up
// checks its owner), yet nobody can guess one. Any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace ringside {

/// "conv_" + 22 characters of [0-9A-Za-z]. `prefix` is "conv_", "resp_" or "msg_".
std::string MakeId(std::string_view prefix);
/// True if MakeId can have made it with this prefix.
bool IsId(std::string_view prefix, std::string_view id);
/// The same for what must come out the same for the same text: "chain_" of a repeated request.
std::string HashedId(std::string_view prefix, std::string_view text);
/// A response's id leads to its session: "resp_", the 22 characters of the session's key, 10 random ones.
std::string MakeResponseId(std::string_view session_key);
/// The 22 characters of the session's key in a response's id; "" if it is none.
std::string_view SessionPartOf(std::string_view response_id);
/// A Caller::connection like no other's of this process; not 0.
uint64_t NextConnection();
/// 64 random bits of the kernel's generator.
uint64_t RandomBits();

}  // namespace ringside
