// Presets of the REPL: a name for a system message, sampling settings and a model. A few are built in; the user's own
// are stored in a private file. A file that cannot be read counts as empty. THREAD: one.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "clients/chat/settings.h"
#include "clients/wire/outcome.h"

namespace ringside::client {

struct Preset {
  std::string system, model;  // "" = none
  Settings settings;
};
using Presets = std::map<std::string, Preset>;

/// Parses the file's JSON; members that do not fit are left out.
Presets ParsePresets(std::string_view json);
std::string WritePresets(const Presets& presets);

/// The built-in presets, and those of the user, which win.
Presets LoadPresets();
/// Stores one under a name of up to 40 bytes without blanks. ERRORS: a sentence.
Outcome<Done> SavePreset(const std::string& name, const Preset& preset);
/// ERRORS: a sentence; built-in presets stay.
Outcome<Done> DeletePreset(const std::string& name);

}  // namespace ringside::client
