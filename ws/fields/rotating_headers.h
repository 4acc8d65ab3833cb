// Headers that agents write into the text of a system message and change with every request. They say nothing to the
// model, and a text that differs near its beginning finds no cache. Pure; any thread.
#pragma once

#include <string_view>

namespace ringside {

/// The text of a system message without the rotating headers at its beginning, each up to the end of its line. They are
/// left out of the prompt and of the history that finds a timeline.
std::string_view WithoutRotatingHeaders(std::string_view text);

}  // namespace ringside
