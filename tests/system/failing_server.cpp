// The server on a device that fails for good in the first step after a file appears, which FAIL_WHEN_THERE names: the
// CPU in a GPU's place. This definition of MakeCudaBackend comes before the libraries'.
#include <unistd.h>

#include <cstdlib>

#include "tests/engine/failing_backend.h"

namespace ringside {
namespace {

class WatchingBackend final : public FailingBackend {
 public:
  using FailingBackend::FailingBackend;
  void Synchronize() override {
    FailingBackend::Synchronize();
    const char* file = std::getenv("FAIL_WHEN_THERE");
    if (file != nullptr && access(file, F_OK) == 0) FailAfter(0);
  }
};

}  // namespace

Result<std::unique_ptr<Backend>> MakeCudaBackend(const CudaBackendOptions&) {
  ASSIGN_OR_RETURN(auto cpu, MakeCpuBackend({.threads = 1}));
  return std::unique_ptr<Backend>(std::make_unique<WatchingBackend>(std::move(cpu)));
}

}  // namespace ringside
