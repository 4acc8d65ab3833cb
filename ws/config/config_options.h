// Table of settings: names, aliases, help and parsers. Shared by the three sources of the configuration
// (ws/config/config.cpp). Immutable.
// THREAD: any.
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
    kValue,   // one value; the last one on the command line counts
    kList,    // any number of values
    kSwitch,  // true or false; the bare flag means true
  };
  std::string name;                  // long flag without dashes
  std::vector<std::string> aliases;  // without dashes; one letter = a short flag
  Kind kind;
  std::string placeholder;  // "N", "PATH" in the help
  std::string help;
  /// Parses the values (never empty) into the config; an error describes the fault without the setting's name.
  std::function<Status(ServerConfig&, const std::vector<std::string>&)> apply;

  /// All spellings, the name first.
  std::vector<std::string> Spellings() const;
};

/// The options defined in network_options.cpp.
std::vector<ConfigOption> NetworkSettings();
std::vector<ConfigOption> StorageSettings();

/// In the order of the help text.
const std::vector<ConfigOption>& ConfigOptions();
/// Finds an option by its name or a long alias; null if there is none.
const ConfigOption* FindConfigOption(std::string_view spelling);

}  // namespace ringside
