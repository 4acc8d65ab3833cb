// Reading of the fields that several faces have: metadata, windows, models and items. Errors have the `param` of what
// is wrong. Pure functions, any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "session/table/session_table.h"
#include "ws/fields/field_readers.h"
#include "ws/fields/ignored_fields.h"
#include "ws/json/json_value.h"
#include "ws/transport/http/http.h"

namespace ringside {

/// Who sent the request, where no connection matters.
inline Caller CallerOf(const HttpRequest& request) { return {request.principal, 0, request.trace}; }

/// Strings to strings, within the limits for metadata.
Status ReadMetadata(const JsonValue& value, std::string_view param, Metadata* out);
/// As ReadMetadata, of an answer: entries that are no strings or beyond the limits are ignored, unless strict.
Status ReadAnswerMetadata(const JsonValue& value, std::string_view param, IgnoredFields* ignored, Metadata* out);
/// {"memory_len", "session_len", "eviction": "turn" | "token", "adapter"}.
Status ReadWindow(const JsonValue& value, std::string_view param, IgnoredFields* ignored, WindowOverrides* out);
/// Whether a name is one of `aliases`, or fits one that ends in '*'.
bool IsAlias(std::string_view name, const std::vector<std::string>& aliases);
/// The model that is asked for: the served one, by its name or an alias (adapter ""), or one of its adapters. An empty
/// name asks for none and leaves `adapter` as it is. kNotFound (model_not_found).
Status ReadModelName(std::string_view name, std::string_view param, const SessionTableOptions& options,
                     std::optional<std::string>* adapter);
/// Under which name clients ask for what a turn is computed with.
const std::string& ModelNameOf(const std::optional<std::string>& adapter, const SessionTableOptions& options);
/// The text of a string or of text parts.
Status ReadContent(const JsonValue& content, const std::string& param, IgnoredFields* ignored, NewItem* out);
/// A message, a tool call or what it gave: an item as in `input` (EasyInputMessage, Message, our own output items sent
/// back).
Status ReadItem(const JsonValue& value, const std::string& param, IgnoredFields* ignored, NewItem* out);
/// Items; tool calls become a part of the assistant's message before them, reasoning a part of the one after it.
/// `param` is "input" or "items". Searches of another server and reasoning that only it can read are ignored.
Status ReadItems(const JsonValue& value, const std::string& param, IgnoredFields* ignored, std::vector<NewItem>* out);

}  // namespace ringside
