// The items of a conversation, read from JSON as OpenAI's API writes them: messages, tool calls, their results and
// reasoning. Errors have the `param` of the faulty field. Pure functions, any thread.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "session/turn/turn_spec.h"
#include "ws/fields/ignored_fields.h"
#include "ws/json/json_value.h"

namespace ringside {

/// The text of a string or of text parts.
Status ReadContent(const JsonValue& content, const std::string& param, IgnoredFields* ignored, NewItem* out);
/// A message, a tool call or its result: an item as in `input` (EasyInputMessage, Message, our own output items sent
/// back).
Status ReadItem(const JsonValue& value, const std::string& param, IgnoredFields* ignored, NewItem* out);
/// Items; tool calls become a part of the assistant's message before them, reasoning a part of the one after it.
/// `param` is "input" or "items". Searches of another server and reasoning that only it can read are ignored.
Status ReadItems(const JsonValue& value, const std::string& param, IgnoredFields* ignored, std::vector<NewItem>* out);

}  // namespace ringside
