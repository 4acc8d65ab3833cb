// The key that encrypts what is stored, from its file. Called while the configuration is read; any thread.
#pragma once

#include <string>

#include "base/status.h"

namespace ringside {

/// 32 bytes: the file holds them as they are, or as 64 hexadecimal digits with or without a line end. kInvalidArgument
/// if it cannot be read, is no plain file, may be read or written by others than its owner (0400 and 0600 may not), or
/// holds anything else.
Result<std::string> ReadEncryptionKey(const std::string& path);

}  // namespace ringside
