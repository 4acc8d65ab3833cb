// Edits a keys file safely against crashes and concurrent editors. Used by the keys command.
// THREAD: one.
#pragma once

#include <functional>
#include <string>

#include "base/status.h"
#include "ws/access/key_file.h"

namespace ringside {

/// Reads the file (missing = no keys), applies `change` and, if it succeeds, replaces the file atomically: writes a
/// temporary file, syncs and renames it, with mode 0600 and the old file's owner. Holds a lock on PATH.lock throughout.
/// ERRORS: kInvalidArgument, naming the file.
Status EditKeysFile(const std::string& path, const std::function<Status(KeysFile&)>& change);
/// Reads the file without a lock.
/// ERRORS: kInvalidArgument.
Result<KeysFile> ReadKeysFile(const std::string& path);

}  // namespace ringside
