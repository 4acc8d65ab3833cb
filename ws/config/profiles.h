// Profiles: named sets of settings for a kind of machine (--profile). A profile only replaces defaults: every other
// source of a setting wins. Immutable. THREAD: any.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/status.h"

namespace ringside {

using ProfileSettings = std::span<const std::pair<std::string_view, std::string_view>>;  // option name, value

/// ERRORS: kInvalidArgument, with the names of all profiles.
Result<ProfileSettings> FindProfile(const std::string& name);
/// "laptop|server|gpu".
std::string ProfileNames();

}  // namespace ringside
