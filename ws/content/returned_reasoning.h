// Reasoning that clients send back with an answer: as text, or as an opaque text (`encrypted_content` of the Responses
// API, `signature` and `data` of Anthropic's). The opaque text is neither secret nor authenticated: a client may send
// any reasoning. Pure.
// THREAD: any.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "session/turn/turn_spec.h"

namespace ringside {

std::string EncodeReasoning(std::string_view text);
/// nullopt for a text not made by EncodeReasoning, such as another server's.
std::optional<std::string> DecodeReasoning(std::string_view opaque);
/// Appends to the reasoning of an assistant's message, after a blank line.
void AddReasoning(std::string_view text, NewItem* item);

}  // namespace ringside
