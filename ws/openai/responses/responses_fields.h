// Typed reading of request fields, with the errors that OpenAI's API gives: what was expected, what came, which
// `param`. Pure functions, any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "session/table/session_table.h"
#include "ws/json/json_value.h"
#include "ws/transport/http/http.h"

namespace ringside {

/// Who sent the request, where no connection matters.
inline Caller CallerOf(const HttpRequest& request) { return {request.principal, 0, request.trace}; }

Status UnknownParameter(std::string_view param);
/// "Invalid type for 'x': expected ..., but got ... instead."
Status WrongType(const JsonValue& value, std::string_view param, std::string_view expected);
/// A known field that asks for what this server lacks.
Status Unsupported(std::string_view param, std::string_view what);

// Each leaves the target alone and fails if the value is of another type or out of range.
Status ReadBool(const JsonValue& value, std::string_view param, bool* out);
/// An integer in [low, high]; 16.0 counts as one.
Status ReadInteger(const JsonValue& value, std::string_view param, int64_t low, int64_t high, int64_t* out);
Status ReadNumber(const JsonValue& value, std::string_view param, double* out);
Status ReadString(const JsonValue& value, std::string_view param, std::string* out);
/// Strings to strings, within the limits for metadata.
Status ReadMetadata(const JsonValue& value, std::string_view param, Metadata* out);
/// {"memory_len", "session_len", "eviction": "turn" | "token", "adapter"}.
Status ReadWindow(const JsonValue& value, std::string_view param, WindowOverrides* out);
/// The model that is asked for: the served one (adapter "") or one of its adapters. An empty name asks for none and
/// leaves `adapter` as it is. kNotFound (model_not_found).
Status ReadModelName(std::string_view name, std::string_view param, const SessionTableOptions& options,
                     std::optional<std::string>* adapter);
/// Under which name clients ask for what a turn is computed with.
const std::string& ModelNameOf(const std::optional<std::string>& adapter, const SessionTableOptions& options);
/// The text of a string or of text parts.
Status ReadContent(const JsonValue& content, const std::string& param, NewItem* out);
/// A message, a tool call or what it gave: an item as in `input` (EasyInputMessage, Message, our own output items sent
/// back).
Status ReadItem(const JsonValue& value, const std::string& param, NewItem* out);
/// Items; tool calls become a part of the assistant's message before them. `param` is "input" or "items".
Status ReadItems(const JsonValue& value, const std::string& param, std::vector<NewItem>* out);

}  // namespace ringside
