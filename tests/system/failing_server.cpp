// The server on a device that fails for good in the first step after a file appears, which FAIL_WHEN_THERE names: the
// CPU in a GPU's place; that does not end a step as long as a file is there which STALL_WHILE_THERE names; and on a
// disk that does not answer any more once the file that HANG_WHEN_THERE names is there. These definitions of
// MakeCudaBackend and of the disk's calls come before the libraries'.
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "tests/engine/failing_backend.h"

/// Makes a second file, so that a test knows that a call hangs.
static int Sync(long number, int file) {
  const char* name = std::getenv("HANG_WHEN_THERE");
  if (name != nullptr && access(name, F_OK) == 0) {
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
    FailingBackend::Synchronize();
    const char* file = std::getenv("FAIL_WHEN_THERE");
    if (file != nullptr && access(file, F_OK) == 0) FailAfter(0);
    const char* stall = std::getenv("STALL_WHILE_THERE");
    while (stall != nullptr && access(stall, F_OK) == 0) usleep(1'000);
  }
};

}  // namespace

Result<std::unique_ptr<Backend>> MakeCudaBackend(const CudaBackendOptions&) {
  ASSIGN_OR_RETURN(auto cpu, MakeCpuBackend({.threads = 1}));
  return std::unique_ptr<Backend>(std::make_unique<WatchingBackend>(std::move(cpu)));
}

}  // namespace ringside
