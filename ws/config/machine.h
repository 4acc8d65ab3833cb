// What the settings ask of the machine that they are for: a folder for the store, memory. Asked once at start, before
// anything is served; a setting that cannot be met is kInvalidArgument, naming it. Any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/status.h"

namespace ringside {

/// Memory that this process may use, in bytes: the machine's, or the limit of its control group if that is less.
int64_t MachineMemoryBytes();

/// What the system tells of this process; 0 where it does not.
struct ProcessFigures {
  int64_t resident_bytes = 0;
  double cpu_seconds = 0, started_at = 0;  // started_at: seconds since 1970
  int64_t open_files = 0, max_files = 0;   // descriptors
};
ProcessFigures ReadProcessFigures();

/// Raises the soft limit of open files to the hard one; returns the limit that holds then.
int64_t RaiseFileLimit();

/// Most connections with `file_limit` descriptors: `asked`, or 1,024, but no more than leave the reserve for the store,
/// backups and refusals.
int64_t ResolveConnections(std::optional<int64_t> asked, int64_t file_limit);

/// Makes the folder with its parents if it is not there. kInvalidArgument if none can be at this path or it is not this
/// user's to write; a disk that fails is left to whoever opens the store.
Status PrepareStoreFolder(const std::string& path);

/// The memory that a server fills in the end.
struct MemoryNeed {
  int64_t host_cache_mb = 0;
  int64_t slots = 0, slot_bytes = 0;  // 0 slots = they are elsewhere, or not known yet
  int64_t kv_cache_mb = 0;            // of all slots, if they may not all be full
  int64_t weight_bytes = 0;
};
/// Default memory of all caches, in bytes: three quarters of the memory that weights and the host cache leave, at least
/// 64 MiB.
int64_t CacheBytesLeft(const MemoryNeed& need, int64_t memory_bytes);
/// kInvalidArgument if `memory_bytes` are less than that.
Status CheckMemory(const MemoryNeed& need, int64_t memory_bytes);

}  // namespace ringside
