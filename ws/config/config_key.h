// Files that hold a key of the server's own: the one that encrypts what is stored, the one that seals exports. Any
// thread.
#pragma once

#include <string>

#include "base/status.h"

namespace ringside {

/// 32 bytes: the file holds them as they are, or as 64 hexadecimal digits with or without a line end. kInvalidArgument
/// as of ReadSecretFile, or if it holds anything else.
Result<std::string> ReadKey(const std::string& path);
/// The same; a file that is not there is made first, mode 0600, with a random key. Whoever makes it at the same time
/// gets the same key. kInvalidArgument too if it cannot be made.
Result<std::string> ReadOrMakeKey(const std::string& path);

}  // namespace ringside
