// Reads optional members of a server's JSON, and writes JSON. Pure. THREAD: any.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace ringside::client {

/// The member `name`; nullptr if `json` is no object, or the member is absent or null.
const nlohmann::json* Find(const nlohmann::json& json, const char* name);
/// The member `name`; "" unless it is a string.
std::string Text(const nlohmann::json& json, const char* name);
/// The member `name` as an integer; 0 unless it is a number.
int64_t Count(const nlohmann::json& json, const char* name);
/// One line; invalid UTF-8 is replaced.
std::string Dump(const nlohmann::ordered_json& json);

}  // namespace ringside::client
