#include "ws/config/setting_advice.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/cli/near_name.h"
#include "base/cli/their_settings.h"
#include "ws/config/config_options.h"

namespace ringside {

std::string SettingAdvice(std::string_view given) {
  std::string name(given);
  std::replace(name.begin(), name.end(), '_', '-');
  const TheirSetting* theirs = FindTheirSetting(name);
  if (theirs != nullptr && theirs->name == name) return "; " + theirs->Describe();
  std::vector<std::string_view> names;
  for (const ConfigOption& option : ConfigOptions()) {
    names.push_back(option.name);
    names.insert(names.end(), option.aliases.begin(), option.aliases.end());
  }
  const std::string_view near = NearName(name, names);
  if (!near.empty()) return fmt::format("; did you mean --{}?", near);
  return theirs != nullptr ? "; " + theirs->Describe() : "";
}

}  // namespace ringside
