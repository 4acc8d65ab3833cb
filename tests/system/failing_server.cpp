// The server on a device that fails for good in the first step after a file appears, which FAIL_WHEN_THERE names, and
// that stands still for as long as the file is there that STALL_WHILE_THERE names: the CPU in a GPU's place, of which
// GPUS names those that a process sees; and on a disk that does not answer any more once the file that HANG_WHEN_THERE
// names is there. These definitions of MakeCudaBackend, CudaDeviceIds and of the disk's calls come before the
// libraries'.
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdlib>
#include <sstream>
#include <string>

#include "kernels/ranks/process_devices.h"
#include "tests/engine/failing_backend.h"

/// The file that a variable of the environment names; null if it is not there.
static const char* FileThere(const char* variable) {
  const char* name = std::getenv(variable);
  return name != nullptr && access(name, F_OK) == 0 ? name : nullptr;
}

/// Makes a second file, so that a test knows that a call hangs.
static int Sync(long number, int file) {
  if (const char* name = FileThere("HANG_WHEN_THERE")) {
    close(open((std::string(name) + ".reached").c_str(), O_CREAT | O_WRONLY, 0600));
    for (;;) pause();
  }
  return static_cast<int>(syscall(number, file));
}
extern "C" int fsync(int file) { return Sync(SYS_fsync, file); }
extern "C" int fdatasync(int file) { return Sync(SYS_fdatasync, file); }

namespace ringside {
namespace {

class WatchingBackend final : public FailingBackend {
 public:
  using FailingBackend::FailingBackend;
  void Synchronize() override {
    while (FileThere("STALL_WHILE_THERE") != nullptr) usleep(1000);
    FailingBackend::Synchronize();
    if (Fails() && FileThere("FAIL_WHEN_THERE") != nullptr) FailAfter(0);
  }

 private:
  /// In all processes that mpirun has started, or in the one that FAIL_RANK names.
  static bool Fails() {
    const char *rank = std::getenv("FAIL_RANK"), *own = std::getenv("OMPI_COMM_WORLD_RANK");
    return rank == nullptr || own == nullptr || std::string(rank) == own;
  }
};

}  // namespace

std::vector<std::string> CudaDeviceIds() {
  const char* names = std::getenv("GPUS");
  std::istringstream in(names == nullptr ? "" : names);
  std::vector<std::string> ids;
  for (std::string id; in >> id;) ids.push_back(id);
  return ids;
}

Result<std::unique_ptr<Backend>> MakeCudaBackend(const CudaBackendOptions&, RankComms comms) {
  ASSIGN_OR_RETURN(auto cpu, MakeCpuBackend({.threads = 1}, std::move(comms)));
  return std::unique_ptr<Backend>(std::make_unique<WatchingBackend>(std::move(cpu)));
}

}  // namespace ringside
