// Headers that agents put into a system message and change with every request. They carry no information for the model,
// and a difference near the start of a text prevents cache hits. Pure.
// THREAD: any.
#pragma once

#include <string_view>

namespace ringside {

/// The text of a system message without the rotating headers at its start, each up to its line's end. They are left out
/// of the prompt and of the history used for look-up.
std::string_view WithoutRotatingHeaders(std::string_view text);

}  // namespace ringside
