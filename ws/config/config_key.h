// Key files of the server: the key that encrypts the store, and the key that seals exports.
// THREAD: any.
#pragma once

#include <string>

#include "base/status.h"

namespace ringside {

/// Reads 32 bytes, stored raw or as 64 hexadecimal digits with an optional line end.
/// ERRORS: kInvalidArgument as ReadSecretFile, or for any other content.
Result<std::string> ReadKey(const std::string& path);
/// As ReadKey, but creates a missing file with mode 0600 and a random key; concurrent callers get the same key.
/// ERRORS: kInvalidArgument also if the file cannot be created.
Result<std::string> ReadOrMakeKey(const std::string& path);

}  // namespace ringside
