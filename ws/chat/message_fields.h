// Parses messages of the stateless protocols. Pure.
// THREAD: any.
// ERRORS: name the field.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "session/table/session_table.h"
#include "ws/fields/common_fields.h"
#include "ws/json/json_value.h"

namespace ringside {

/// A protocol's rules for messages.
struct MessageRules {
  std::vector<std::string_view> roles;
  std::vector<std::string_view> empty;      // fields that must be empty: unsupported, and they would change the meaning
  std::vector<std::string_view> hints;      // ignored fields, reported unless empty
  std::vector<std::string_view> reasoning;  // fields with an assistant's reasoning; the first one present is used
  std::vector<std::string_view> ignored;    // ignored fields that need no report
  std::string_view image = {};              // type of parts that are an image
  std::string_view images = {};             // field with a message's images
  bool tools = false;                       // allows the role "tool", and "tool_calls" of the assistant
  bool names = false;                       // messages may have a speaker's "name", which no template renders
};

/// OpenAI's chat messages.
const MessageRules& ChatMessageRules();
/// Parses at least `least` messages with text: a string or a list of {"type": "text", "text"} parts.
Status ReadMessages(const JsonValue& value, const std::string& param, const MessageRules& rules, size_t least,
                    IgnoredFields* ignored, std::vector<NewItem>* out);
/// Parses one message.
/// REQUIRES: not null.
Status ReadMessage(const JsonValue& message, const std::string& param, const MessageRules& rules,
                   IgnoredFields* ignored, NewItem* out);
/// Parses its role and checks its other fields except "content".
Status ReadMessageRole(const JsonValue& message, const std::string& param, const MessageRules& rules,
                       IgnoredFields* ignored, ChatRole* out);
/// Appends a {"type": "text", "text"} part, or one with an image.
Status ReadTextPart(const JsonValue& part, const std::string& param, const MessageRules& rules, IgnoredFields* ignored,
                    NewItem* out);
/// Parses the text of a string, or text and image parts.
Status ReadText(const JsonValue& value, const std::string& param, const MessageRules& rules, IgnoredFields* ignored,
                NewItem* out);
/// A turn of a request, still without input.
TurnSpec StatelessTurn(const SessionTableOptions& options);

}  // namespace ringside
