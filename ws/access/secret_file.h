// Reads files that hold secrets, and refuses those that others can read.
// THREAD: any except the io threads.
#pragma once

#include <cstddef>
#include <string>

#include "base/status.h"

namespace ringside {

/// Returns the content of a regular file of at most `most_bytes` with mode 0400 or 0600, or directly in
/// $CREDENTIALS_DIRECTORY (systemd).
/// ERRORS: kInvalidArgument, naming the file.
Result<std::string> ReadSecretFile(const std::string& path, size_t most_bytes = 1 << 20);

}  // namespace ringside
