// Messages of stateless requests, as each face spells them, and the fields that several faces have. Errors name the
// field. Pure; any thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "session/table/session_table.h"
#include "ws/json/json_value.h"
#include "ws/transport/http/http.h"

namespace ringside {

/// What a message may look like.
struct MessageRules {
  std::vector<std::string_view> roles;
  std::vector<std::string_view> empty;    // fields that may be there if they are empty: what we lack
  std::vector<std::string_view> ignored;  // fields without effect
  bool tools = false;                     // there are messages of the role "tool", and "tool_calls" in the assistant's
  bool names = false;                     // who speaks may have a "name", which no template tells
};

/// A list of at least `least` messages with text: a string or a list of {"type": "text", "text"} parts.
Status ReadMessages(const JsonValue& value, const std::string& param, const MessageRules& rules, size_t least,
                    std::vector<NewItem>* out);
/// One of them, not null.
Status ReadMessage(const JsonValue& message, const std::string& param, const MessageRules& rules, NewItem* out);
/// Its role, and that of its other fields but "content" none is there that must not be.
Status ReadMessageRole(const JsonValue& message, const std::string& param, const MessageRules& rules, ChatRole* out);
/// A {"type": "text", "text"} part, appended.
Status ReadTextPart(const JsonValue& part, const std::string& param, const MessageRules& rules, NewItem* out);
/// The text of a string or of text parts.
Status ReadText(const JsonValue& value, const std::string& param, const MessageRules& rules, NewItem* out);
/// The body of a request: a JSON object.
Result<JsonValue> ReadBody(const HttpRequest& request);
/// read(value, key, out) of each field of a body. Of a null only the name is checked.
template <class Request, class Read>
Status ReadFields(const JsonValue& body, Request* out, const Read& read) {
  for (const auto& [key, value] : body.object()) {
    if (value.is_null()) {
      Request unused;
      const Status known = read(value, key, &unused);
      if (known.reason() == "unknown_parameter") return known;
      continue;
    }
    RETURN_IF_ERROR(read(value, key, out));
  }
  return Status::Ok();
}
/// ReadModelName of a string, perhaps with ":latest" behind the name.
Status ReadModel(const JsonValue& value, const std::string& param, const SessionTableOptions& options,
                 std::optional<std::string>* adapter);
/// null, false, "", 0, [] and {} are empty.
bool IsEmpty(const JsonValue& value);
/// A known field that must be empty.
Status RequireEmpty(const JsonValue& value, const std::string& param);
Status MissingParameter(std::string_view param);
/// A turn of a request without anything said yet.
TurnSpec StatelessTurn(const SessionTableOptions& options);

}  // namespace ringside
