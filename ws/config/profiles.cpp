#include "ws/config/profiles.h"

#include <algorithm>
#include <iterator>

#include "ws/config/config_values.h"

namespace ringside {
namespace {

using Setting = std::pair<std::string_view, std::string_view>;

// One person, who also uses the machine for other work: little memory, two answers at once.
constexpr Setting kLaptop[] = {{"slots", "2"},
                               {"kv-cache-mb", "2048"},
                               {"host-cache-mb", "512"},
                               {"disk-cache-mb", "4096"},
                               {"max-connections", "64"}};
// A machine without a GPU that serves a group: conversations return from memory and disk, one key cannot fill the
// queue.
constexpr Setting kServer[] = {
    {"slots", "16"},         {"host-cache-mb", "4096"}, {"disk-cache-mb", "65536"}, {"max-turns-per-owner", "16"},
    {"shutdown-grace", "5"}, {"log-format", "json"}};
// A machine with a GPU that serves many: all memory of the GPU for caches, more of them in host memory.
constexpr Setting kGpu[] = {{"device", "cuda"},          {"host-cache-mb", "16384"},
                            {"disk-cache-mb", "131072"}, {"max-turns-per-owner", "32"},
                            {"shutdown-grace", "5"},     {"log-format", "json"}};

struct Profile {
  std::string_view name;
  ProfileSettings settings;
};
const Profile kProfiles[] = {{"laptop", kLaptop}, {"server", kServer}, {"gpu", kGpu}};

}  // namespace

std::string ProfileNames() {
  std::string names;
  for (const Profile& profile : kProfiles) names += (names.empty() ? "" : "|") + std::string(profile.name);
  return names;
}

Result<ProfileSettings> FindProfile(const std::string& name) {
  const auto* found = std::ranges::find(kProfiles, name, &Profile::name);
  if (found == std::end(kProfiles)) return BadValue(name, "one of " + ProfileNames());
  return found->settings;
}

}  // namespace ringside
