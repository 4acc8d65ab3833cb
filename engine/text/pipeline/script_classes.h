// Scripts of characters as the pre-tokenizer UnicodeScripts of the library `tokenizers` has them. A pure function; any
// thread.
#pragma once

#include <cstdint>
#include <optional>

namespace ringside {

/// The number of the character's script. nullopt: a space, or a character without one; it takes the script in front.
std::optional<int> ScriptClass(uint32_t code_point);

}  // namespace ringside
