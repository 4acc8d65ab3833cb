// Public ids: a prefix and 128 random bits from the kernel in base62. An id is not a credential (every look-up checks
// the owner), but it cannot be guessed.
// THREAD: any.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace ringside {

/// "conv_" + 22 characters of [0-9A-Za-z]. `prefix` is "conv_", "resp_" or "msg_".
std::string MakeId(std::string_view prefix);
/// True if MakeId can have returned `id` for this prefix.
bool IsId(std::string_view prefix, std::string_view id);
/// As MakeId, but deterministic: equal texts get equal ids ("chain_" of a repeated request).
std::string HashedId(std::string_view prefix, std::string_view text);
/// Returns "resp_", the 22 characters of the session's key and 10 random ones, so that a response's id leads to its
/// session.
std::string MakeResponseId(std::string_view session_key);
/// The 22 characters of the session's key in a response's id; "" for any other text.
std::string_view SessionPartOf(std::string_view response_id);
/// Returns a Caller::connection that is unique in this process, not 0.
uint64_t NextConnection();
/// 64 random bits from the kernel.
uint64_t RandomBits();

}  // namespace ringside
