// What to say about a setting that the server does not have: its name here if it is another server's, or the nearest
// name. Pure functions. THREAD: any.
#pragma once

#include <string>
#include <string_view>

namespace ringside {

/// `name`: without dashes. A sentence's end that starts with a semicolon, or "" if there is nothing to advise:
/// "; llama.cpp's --ctx-size is --memory-len here".
std::string SettingAdvice(std::string_view name);

}  // namespace ringside
