// The table of settings: names, aliases, help and how a value is taken. Shared by the three sources of the
// configuration (ws/config/config.cpp). Immutable; any thread.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "ws/config/config.h"

namespace ringside {

struct ConfigOption {
  enum class Kind {
    kValue,   // one value; of several on one command line the last counts
    kList,    // any number of values
    kSwitch,  // true or false; on the command line its bare flag is true
  };
  std::string name;                  // long flag without dashes
  std::vector<std::string> aliases;  // likewise; one letter = a short flag
  Kind kind;
  std::string placeholder;  // "N", "PATH": for the help
  std::string help;
  /// Takes the values (never empty) into the config; the message says what is wrong, without the setting's name.
  std::function<Status(ServerConfig&, const std::vector<std::string>&)> apply;

  /// Every spelling, the name first.
  std::vector<std::string> Spellings() const;
};

/// The part of them that network_options.cpp has.
std::vector<ConfigOption> NetworkSettings();

/// In the order of the help text.
const std::vector<ConfigOption>& ConfigOptions();
/// The option with this name or alias of more than one letter; null if there is none.
const ConfigOption* FindConfigOption(std::string_view spelling);

}  // namespace ringside
