// Lets the user edit a text in their editor.
#pragma once

#include <string>

#include "clients/terminal/terminal.h"
#include "clients/wire/outcome.h"

namespace ringside::client {

/// Opens VISUAL, EDITOR or vi on a private file with `draft` and waits for it; the terminal is in cooked mode
/// meanwhile. Returns the saved text without trailing blank lines. Fails if there is no such editor or it exits with an
/// error. THREAD: main.
Outcome<std::string> WriteInEditor(Terminal& terminal, const std::string& draft);

}  // namespace ringside::client
