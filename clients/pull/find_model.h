// The model that a person names: a path, a model on this machine, or one to download. Blocking. THREAD: main.
#pragma once

#include <string>

#include "clients/wire/outcome.h"

namespace ringside::client {

/// Returns the path for --model. Downloads a model that is not here, if `name` is a reference for `ringside pull`.
/// Fails with a sentence, for a name that several models share with their names.
Outcome<std::string> FindModel(const std::string& name);

}  // namespace ringside::client
