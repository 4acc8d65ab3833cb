// The server on a device that fails for good in the first step after a file appears, which FAIL_WHEN_THERE names, and
// that stands still for as long as the file is there that STALL_WHILE_THERE names: the CPU in a GPU's place; and on a
// disk that does not answer any more once the file that HANG_WHEN_THERE names is there. These definitions of
// MakeCudaBackend and of the disk's calls come before the libraries'.
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

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
    if (FileThere("FAIL_WHEN_THERE") != nullptr) FailAfter(0);
  }
};

}  // namespace

Result<std::unique_ptr<Backend>> MakeCudaBackend(const CudaBackendOptions&, RankComms comms) {
  ASSIGN_OR_RETURN(auto cpu, MakeCpuBackend({.threads = 1}, std::move(comms)));
  return std::unique_ptr<Backend>(std::make_unique<WatchingBackend>(std::move(cpu)));
}

}  // namespace ringside
