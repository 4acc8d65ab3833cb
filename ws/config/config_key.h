// Files that hold secrets: the key that encrypts what is stored, the keys that clients present. Called while the
// configuration is read; any thread.
#pragma once

#include <string>

#include "base/status.h"

namespace ringside {

/// The file's bytes, 1 MiB at most. kInvalidArgument if it cannot be read, is no plain file, is longer, or may be read
/// or written by others than its owner (0400 and 0600 may not).
Result<std::string> ReadSecretFile(const std::string& path);

/// 32 bytes: the file holds them as they are, or as 64 hexadecimal digits with or without a line end. kInvalidArgument
/// as of ReadSecretFile, or if it holds anything else.
Result<std::string> ReadEncryptionKey(const std::string& path);

}  // namespace ringside
