// The server with faults that files switch on. FAIL_WHEN_THERE: the device fails permanently in the next step (with
// FAIL_DEVICE only the device of that number). STALL_WHILE_THERE: the device does not answer while the file exists.
// NAN_WHILE_THERE: its logits are not finite. THROW_WHEN_THERE: a step runs out of memory. HANG_WHEN_THERE: disk syncs
// do not return while the file exists. WALL_CLOCK_OFFSET: the file holds the seconds to add to the wall clock. The CPU
// backend stands in for a GPU; GPUS lists the devices visible to a process. The definitions of MakeCudaBackend,
// CudaDeviceIds, the disk calls and the clock here take precedence over the libraries'.
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdlib>
#include <ctime>
#include <new>
#include <sstream>
#include <string>

#include "kernels/ranks/process_devices.h"
#include "tests/engine/failing_backend.h"

/// The file named by an environment variable; null if it does not exist.
static const char* FileThere(const char* variable) {
  const char* name = std::getenv(variable);
  return name != nullptr && access(name, F_OK) == 0 ? name : nullptr;
}

/// Creates a second file, so that a test can see that a call hangs.
static int Sync(long number, int file) {
  if (const char* name = FileThere("HANG_WHEN_THERE")) {
    close(open((std::string(name) + ".reached").c_str(), O_CREAT | O_WRONLY, 0600));
    while (FileThere("HANG_WHEN_THERE") != nullptr) usleep(1000);
  }
  return static_cast<int>(syscall(number, file));
}
extern "C" int clock_gettime(clockid_t clock, timespec* time) {
  const long status = syscall(SYS_clock_gettime, clock, time);
  const char* const name = clock == CLOCK_REALTIME ? FileThere("WALL_CLOCK_OFFSET") : nullptr;
  if (const int file = name == nullptr ? -1 : open(name, O_RDONLY); file >= 0) {
    char text[32] = {};
    if (read(file, text, sizeof(text) - 1) > 0) time->tv_sec += std::strtol(text, nullptr, 10);
    close(file);
  }
  return static_cast<int>(status);
}
extern "C" int fsync(int file) { return Sync(SYS_fsync, file); }
extern "C" int fdatasync(int file) { return Sync(SYS_fdatasync, file); }

namespace ringside {
namespace {

class WatchingBackend final : public FailingBackend {
 public:
  WatchingBackend(std::unique_ptr<Backend> inner, int device) : FailingBackend(std::move(inner)), device_(device) {}
  void Synchronize() override {
    while (FileThere("STALL_WHILE_THERE") != nullptr) usleep(1000);
    FailingBackend::Synchronize();
    if (Fails() && FileThere("FAIL_WHEN_THERE") != nullptr) FailAfter(0);
  }
  void SampleTokens(Tensor logits, std::span<const RowSamplingParams> choices,
                    std::span<SampledToken> chosen) override {
    if (FileThere("THROW_WHEN_THERE") != nullptr) throw std::bad_alloc();
    FailingBackend::SampleTokens(logits, choices, chosen);
    if (FileThere("NAN_WHILE_THERE") == nullptr) return;
    for (SampledToken& token : chosen) token.outcome = SampledToken::Outcome::kNonFinite;
  }

 private:
  static bool Named(const char* variable, const std::string& own) {
    const char* name = std::getenv(variable);
    return name == nullptr || own.empty() || name == own;
  }
  /// In all processes started by mpirun, or in the one that FAIL_RANK names.
  bool Fails() const {
    const char* rank = std::getenv("OMPI_COMM_WORLD_RANK");
    return Named("FAIL_RANK", rank == nullptr ? "" : rank) && Named("FAIL_DEVICE", std::to_string(device_));
  }

  const int device_;
};

}  // namespace

std::vector<std::string> CudaDeviceIds() {
  const char* names = std::getenv("GPUS");
  std::istringstream in(names == nullptr ? "" : names);
  std::vector<std::string> ids;
  for (std::string id; in >> id;) ids.push_back(id);
  return ids;
}

Result<std::unique_ptr<Backend>> MakeCudaBackend(const CudaBackendOptions& options, RankComms comms) {
  ASSIGN_OR_RETURN(auto cpu, MakeCpuBackend({.threads = 1}, std::move(comms)));
  return std::unique_ptr<Backend>(std::make_unique<WatchingBackend>(std::move(cpu), options.device));
}

}  // namespace ringside
