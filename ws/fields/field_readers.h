// Typed reading of one request field. Errors are those of OpenAI's API: the expected type, the given one, `param`.
// Pure functions, any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"
#include "ws/json/json_value.h"

namespace ringside {

inline constexpr size_t kQuotedBytes = 256;  // limit of a client's text in an error
inline std::string Quoted(std::string_view text) { return "'" + std::string(text) + "'"; }
Status UnknownParameter(std::string_view param);
Status MissingParameter(std::string_view param);
/// "Invalid type for 'x': expected ..., but got ... instead."
Status WrongType(const JsonValue& value, std::string_view param, std::string_view expected);
/// A known field that requests an unsupported feature.
Status Unsupported(std::string_view param, std::string_view what);

// Each leaves the target unchanged and fails if the value has another type or is out of range.
Status ReadBool(const JsonValue& value, std::string_view param, bool* out);
/// An integer in [low, high]; 16.0 is accepted.
Status ReadInteger(const JsonValue& value, std::string_view param, int64_t low, int64_t high, int64_t* out);
Status ReadNumber(const JsonValue& value, std::string_view param, double* out);
Status ReadString(const JsonValue& value, std::string_view param, std::string* out);

/// null, false, "", 0, [] and {} are empty.
bool IsEmpty(const JsonValue& value);
/// A known field that must be empty: any other value is refused (unsupported_value).
Status RequireEmpty(const JsonValue& value, const std::string& param);

}  // namespace ringside
