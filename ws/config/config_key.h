// Files that hold secrets: the key that encrypts what is stored, the one that seals exports, the keys that clients
// present. Any thread.
#pragma once

#include <string>

#include "base/status.h"

namespace ringside {

/// The file's bytes, 1 MiB at most. kInvalidArgument if it cannot be read, is no plain file, is longer, or may be read
/// or written by others than its owner (0400 and 0600 may not).
Result<std::string> ReadSecretFile(const std::string& path);

/// 32 bytes: the file holds them as they are, or as 64 hexadecimal digits with or without a line end. kInvalidArgument
/// as of ReadSecretFile, or if it holds anything else.
Result<std::string> ReadKey(const std::string& path);
/// The same; a file that is not there is made first, mode 0600, with a random key. Whoever makes it at the same time
/// gets the same key. kInvalidArgument too if it cannot be made.
Result<std::string> ReadOrMakeKey(const std::string& path);

}  // namespace ringside
