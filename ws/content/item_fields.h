// Parses a conversation's items in OpenAI's format: messages, tool calls, results and reasoning. Pure functions.
// THREAD: any.
// ERRORS: with the `param` of the faulty field.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "session/turn/turn_spec.h"
#include "ws/fields/ignored_fields.h"
#include "ws/json/json_value.h"

namespace ringside {

/// Parses the text of a string, or text and image parts.
Status ReadContent(const JsonValue& content, const std::string& param, IgnoredFields* ignored, NewItem* out);
/// Parses a message, a tool call or its result, as in `input` (EasyInputMessage, Message, output items sent back).
Status ReadItem(const JsonValue& value, const std::string& param, IgnoredFields* ignored, NewItem* out);
/// Parses items. Tool calls are added to the preceding assistant message, reasoning to the following one. `param` is
/// "input" or "items". Ignores items of hosted tools and encrypted reasoning of other servers.
Status ReadItems(const JsonValue& value, const std::string& param, IgnoredFields* ignored, std::vector<NewItem>* out);

}  // namespace ringside
