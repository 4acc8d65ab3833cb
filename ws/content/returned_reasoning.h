// Reasoning that clients send back with an answer: as text, or as an opaque text that they keep for us
// (`encrypted_content` of the Responses API, `signature` and `data` of Anthropic's). That is neither secret nor
// authenticated: a client may send back any reasoning. Pure; any thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "session/turn/turn_spec.h"

namespace ringside {

std::string EncodeReasoning(std::string_view text);
/// Nothing for a text that EncodeReasoning did not make, such as another server's.
std::optional<std::string> DecodeReasoning(std::string_view opaque);
/// Appends to the reasoning of an assistant's message, after a blank line.
void AddReasoning(std::string_view text, NewItem* item);

}  // namespace ringside
