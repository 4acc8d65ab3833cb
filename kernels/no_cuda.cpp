// CUDA entry points of a build without CUDA.
#include "kernels/backend.h"
#include "kernels/ranks/process_devices.h"

namespace ringside {

Result<std::unique_ptr<Backend>> MakeCudaBackend(const CudaBackendOptions&, RankComms) {
  return Unavailable("this program was built without CUDA (RINGSIDE_CUDA is off)");
}

int CountCudaDevices() { return 0; }

std::vector<std::string> CudaDeviceIds() { return {}; }

}  // namespace ringside
