// Reads files that hold secrets, and only those that nobody but their owner may read. Pure but for the disk; any
// thread, not the io threads.
#pragma once

#include <cstddef>
#include <string>

#include "base/status.h"

namespace ringside {

/// The content of a plain file of mode 0400 or 0600, or directly in $CREDENTIALS_DIRECTORY (systemd's), with at most
/// `most_bytes`; kInvalidArgument, naming the file, for any other.
Result<std::string> ReadSecretFile(const std::string& path, size_t most_bytes = 1 << 20);

}  // namespace ringside
