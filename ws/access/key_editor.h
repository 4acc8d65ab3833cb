// Changes a keys file so that neither a crash nor another editor can spoil it. Used by the keys command; one thread.
#pragma once

#include <functional>
#include <string>

#include "base/status.h"
#include "ws/access/key_file.h"

namespace ringside {

/// Reads the file (none yet = one without keys), lets `change` work on it and, if that succeeds, puts the changed file
/// in its place: written under another name, synced and renamed, mode 0600, owned by whom the old one was owned by. All
/// of it under a lock on PATH.lock. kInvalidArgument with a sentence that names the file.
Status EditKeysFile(const std::string& path, const std::function<Status(KeysFile&)>& change);
/// As it stands; kInvalidArgument.
Result<KeysFile> ReadKeysFile(const std::string& path);

}  // namespace ringside
