// Identities of a store's files when it was opened. Writes to an open file succeed even after its folder was deleted or
// moved, and are lost; so the journal compares the paths with the open files before each acknowledgement. Owned by the
// JournalLog.
// THREAD: any.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "base/status.h"

namespace ringside {

class StorePlace {
 public:
  /// Records the files and folders at `paths`. ERRORS: kIo if a path does not exist.
  static Result<StorePlace> Of(std::vector<std::string> paths);
  /// ERRORS: kIo if a path is missing or leads to another file; kUnavailable if a folder is not writable now.
  Status Check() const;

 private:
  struct Entry {
    std::string path;
    dev_t device;
    ino_t inode;
    bool folder;
  };
  std::vector<Entry> entries_;
};

}  // namespace ringside
