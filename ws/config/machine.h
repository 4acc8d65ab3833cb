// Checks settings against the machine: the store's folder, memory, file descriptors. Called once at start.
// ERRORS: kInvalidArgument, naming the setting.
// THREAD: any.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"

namespace ringside {

/// Memory available to this process in bytes: the machine's, or its control group's limit if that is lower.
int64_t MachineMemoryBytes();

/// Process statistics from the system; 0 = not available.
struct ProcessFigures {
  int64_t resident_bytes = 0;
  double cpu_seconds = 0, started_at = 0;  // started_at: seconds since 1970
  int64_t open_files = 0, max_files = 0;   // descriptors
};
ProcessFigures ReadProcessFigures();

/// Raises the soft limit of open files to the hard limit; returns the new limit.
int64_t RaiseFileLimit();

/// Connection limit for `file_limit` descriptors: `asked` or 1,024, at most the number that leaves the reserve for the
/// store, backups and refusals.
int64_t ResolveConnections(std::optional<int64_t> asked, int64_t file_limit);

/// Creates the folder and its parents if missing.
/// ERRORS: kInvalidArgument if the path cannot be a folder or is not writable; a disk failure is left to the store's
/// open.
Status PrepareStoreFolder(const std::string& path);

/// Peak memory of a server.
struct MemoryNeed {
  int64_t host_cache_mb = 0;
  int64_t slots = 0, slot_bytes = 0;  // 0 slots = elsewhere, or not known yet
  int64_t kv_cache_mb = 0;            // of all slots; 0 = slots * slot_bytes
  int64_t weight_bytes = 0;
};
/// Default bytes for all caches: three quarters of the memory left by weights and the host cache, at least 64 MiB.
int64_t CacheBytesLeft(const MemoryNeed& need, int64_t memory_bytes);
/// Checks a model before it is loaded. `place`: of the memory, as in "memory of this machine".
/// ERRORS: kInvalidArgument, with the sizes and what to do.
Status CheckWeights(int64_t weight_bytes, int64_t free_bytes, std::string_view place);
/// ERRORS: kInvalidArgument if `need` exceeds `memory_bytes`.
Status CheckMemory(const MemoryNeed& need, int64_t memory_bytes);

}  // namespace ringside
