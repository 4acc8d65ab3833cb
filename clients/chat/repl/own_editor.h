// Lets the user write a text in the editor of their choice.
#pragma once

#include <string>

#include "clients/terminal/terminal.h"
#include "clients/wire/outcome.h"

namespace ringside::client {

/// Opens VISUAL, EDITOR or vi on a private file with `draft` in it and waits for its end; the terminal is in ordinary
/// mode meanwhile. What was saved, without blank lines at its end. Fails, with a sentence, if there is no such editor
/// or it ends with an error. Main thread only.
Outcome<std::string> WriteInEditor(Terminal& terminal, const std::string& draft);

}  // namespace ringside::client
