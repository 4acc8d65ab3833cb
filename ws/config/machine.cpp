#include "ws/config/machine.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <sstream>
#include <utility>

namespace ringside {
namespace {

constexpr double kMiB = 1 << 20;
constexpr int64_t kUsualFiles = 1024, kUsualConnections = 1024;
// File descriptors reserved for the store: its disk cache opens a quarter of the limit, at most 1,024, its journal an
// eighth, at most 256, a backup a few. The rest is for connections beyond the limit that are being refused or closed.
constexpr int64_t kReservedFiles = 1536;

/// The limit in this file; none for "max" or a missing file.
int64_t LimitIn(const std::filesystem::path& file) {
  int64_t bytes = 0;
  return std::ifstream(file) >> bytes && bytes > 0 ? bytes : std::numeric_limits<int64_t>::max();
}

/// The smallest memory limit of this process's control group (version 2) and its ancestors.
int64_t GroupMemoryBytes() {
  const std::filesystem::path root = "/sys/fs/cgroup";
  std::ifstream groups("/proc/self/cgroup");
  std::filesystem::path group = "/";
  for (std::string line; std::getline(groups, line);) {
    if (line.starts_with("0::/")) group = line.substr(3);
  }
  int64_t least = LimitIn(root / "memory.max");
  for (; group != group.parent_path(); group = group.parent_path()) {
    least = std::min(least, LimitIn(root / group.relative_path() / "memory.max"));
  }
  return least;
}

}  // namespace

int64_t MachineMemoryBytes() {
  return std::min(int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE), GroupMemoryBytes());
}

ProcessFigures ReadProcessFigures() {
  ProcessFigures figures;
  int64_t pages = 0;
  if (std::ifstream("/proc/self/statm") >> pages >> pages) figures.resident_bytes = pages * sysconf(_SC_PAGESIZE);
  std::error_code error;
  for (const auto& file : std::filesystem::directory_iterator("/proc/self/fd", error)) {
    figures.open_files += file.path().empty() ? 0 : 1;
  }
  rlimit most{};
  if (getrlimit(RLIMIT_NOFILE, &most) == 0) figures.max_files = static_cast<int64_t>(most.rlim_cur);
  // Fields after the command name, which is in parentheses and may contain anything; see proc(5).
  std::stringstream all;
  all << std::ifstream("/proc/self/stat").rdbuf();
  const std::string text = all.str();
  std::istringstream fields(text.substr(std::min(text.rfind(')'), text.size() - 1) + 1));
  constexpr int kFirst = 3, kUserTime = 14, kSystemTime = 15, kStartTime = 22;
  const auto ticks = static_cast<double>(sysconf(_SC_CLK_TCK));
  double since_boot = 0;
  std::string field;
  for (int number = kFirst; number <= kStartTime && fields >> field; ++number) {
    if (number == kUserTime || number == kSystemTime) figures.cpu_seconds += std::stod(field) / ticks;
    if (number == kStartTime) since_boot = std::stod(field) / ticks;
  }
  std::ifstream boot("/proc/stat");
  for (std::string line; std::getline(boot, line);) {
    if (line.starts_with("btime ")) figures.started_at = std::stod(line.substr(6)) + since_boot;
  }
  return figures;
}

int64_t RaiseFileLimit() {
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) != 0) return kUsualFiles;
  const rlim_t soft = std::exchange(files.rlim_cur, files.rlim_max);
  if (setrlimit(RLIMIT_NOFILE, &files) != 0) files.rlim_cur = soft;
  return static_cast<int64_t>(std::min<rlim_t>(files.rlim_cur, std::numeric_limits<int32_t>::max()));
}

int64_t ResolveConnections(std::optional<int64_t> asked, int64_t file_limit) {
  const int64_t reserve = std::min(kReservedFiles, file_limit / 2);
  return std::max<int64_t>(std::min(asked.value_or(kUsualConnections), file_limit - reserve), 1);
}

Status PrepareStoreFolder(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error == std::errc::io_error || error == std::errc::no_space_on_device) return Status::Ok();
  if (error) return InvalidArgument("--store-path: \"" + path + "\" cannot be made: " + error.message());
  if (access(path.c_str(), R_OK | W_OK | X_OK) != 0) {
    return InvalidArgument("--store-path: \"" + path + "\" cannot be written: " + std::strerror(errno));
  }
  return Status::Ok();
}

int64_t CacheBytesLeft(const MemoryNeed& need, int64_t memory_bytes) {
  constexpr int64_t kLeast = 64 << 20;
  const int64_t left = memory_bytes - need.weight_bytes - (need.host_cache_mb << 20);
  return std::max(left / 4 * 3, kLeast);
}

Status CheckWeights(int64_t weight_bytes, int64_t free_bytes, std::string_view place) {
  if (weight_bytes <= free_bytes) return Status::Ok();
  constexpr double kGiB = 1 << 30;
  return InvalidArgument(fmt::format(
      "--model: {:.1f} GiB of weights do not fit into the {:.1f} GiB of {}, caches not counted; choose a smaller model "
      "or "
      "one with fewer bits per weight (`ringside models` lists what fits), or share it with --tensor-parallel-size",
      static_cast<double>(weight_bytes) / kGiB, static_cast<double>(free_bytes) / kGiB, place));
}

Status CheckMemory(const MemoryNeed& need, int64_t memory_bytes) {
  const double memory_mib = static_cast<double>(memory_bytes) / kMiB;
  if (static_cast<double>(need.host_cache_mb) > memory_mib) {
    return InvalidArgument(
        fmt::format("--host-cache-mb: {} MiB are more than the {:.0f} MiB of memory that this machine has",
                    need.host_cache_mb, memory_mib));
  }
  if (const int64_t mib = need.kv_cache_mb, all = mib + need.host_cache_mb + need.weight_bytes / kMiB; mib > 0) {
    if (all <= memory_bytes / kMiB) return Status::Ok();
    return InvalidArgument(fmt::format(
        "--kv-cache-mb: {} MiB for caches, {} MiB of weights and --host-cache-mb {} are more than the {:.0f} MiB of "
        "memory that this machine has; lower --kv-cache-mb or --host-cache-mb, or choose a smaller model",
        mib, need.weight_bytes / kMiB, need.host_cache_mb, memory_mib));
  }
  const double slot_mib = static_cast<double>(need.slot_bytes) / kMiB,
               weights_mib = static_cast<double>(need.weight_bytes) / kMiB;
  if (static_cast<double>(need.slots) * slot_mib + static_cast<double>(need.host_cache_mb) + weights_mib > memory_mib) {
    return InvalidArgument(fmt::format(
        "--slots: {} slots of {:.1f} MiB (--memory-len), {:.1f} MiB of weights and --host-cache-mb {} are more than "
        "the {:.0f} MiB of memory that this machine has; lower --memory-len, --slots or --host-cache-mb, or choose a "
        "smaller model",
        need.slots, slot_mib, weights_mib, need.host_cache_mb, memory_mib));
  }
  return Status::Ok();
}

}  // namespace ringside
