// Names of sessions and owners as the database's text columns hold them. PostgreSQL refuses ill-formed text, and a
// refused batch would stop the journal. Pure functions. THREAD: any.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/sealed_box.h"

namespace ringside {

/// True if a session can have this name: 1 to 128 printable ASCII characters.
bool IsStoredName(std::string_view session);

/// The text by which an owner's sessions are found: the name, or its hexadecimal digits if it is not printable ASCII;
/// with a master key a pseudonym.
std::string OwnerColumn(const std::optional<SealKey>& master, std::string_view owner);

}  // namespace ringside
