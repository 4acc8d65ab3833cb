// Messages of stateless requests, as each face spells them. Errors name the field. Pure; any thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "session/table/session_table.h"
#include "ws/fields/common_fields.h"
#include "ws/json/json_value.h"

namespace ringside {

/// What a message may look like.
struct MessageRules {
  std::vector<std::string_view> roles;
  std::vector<std::string_view> empty;      // fields that must be empty: what we lack and would change the meaning
  std::vector<std::string_view> hints;      // fields that are ignored, and reported unless they are empty
  std::vector<std::string_view> reasoning;  // fields with an assistant's reasoning; the first one is read
  std::vector<std::string_view> ignored;    // fields without effect, which need no report
  bool tools = false;  // there are messages of the role "tool", and "tool_calls" in the assistant's
  bool names = false;  // who speaks may have a "name", which no template tells
};

/// Messages as OpenAI's chats have them.
const MessageRules& ChatMessageRules();
/// A list of at least `least` messages with text: a string or a list of {"type": "text", "text"} parts.
Status ReadMessages(const JsonValue& value, const std::string& param, const MessageRules& rules, size_t least,
                    IgnoredFields* ignored, std::vector<NewItem>* out);
/// One of them, not null.
Status ReadMessage(const JsonValue& message, const std::string& param, const MessageRules& rules,
                   IgnoredFields* ignored, NewItem* out);
/// Its role, and that of its other fields but "content" none is there that must not be.
Status ReadMessageRole(const JsonValue& message, const std::string& param, const MessageRules& rules,
                       IgnoredFields* ignored, ChatRole* out);
/// A {"type": "text", "text"} part, appended.
Status ReadTextPart(const JsonValue& part, const std::string& param, const MessageRules& rules, IgnoredFields* ignored,
                    NewItem* out);
/// The text of a string or of text parts.
Status ReadText(const JsonValue& value, const std::string& param, const MessageRules& rules, IgnoredFields* ignored,
                NewItem* out);
/// A turn of a request without anything said yet.
TurnSpec StatelessTurn(const SessionTableOptions& options);

}  // namespace ringside
