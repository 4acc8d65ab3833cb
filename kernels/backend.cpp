#include "kernels/backend.h"

#include "base/check.h"

namespace ringside {

void Backend::LinearHeads(const HeadsArgs&) { CheckFailed(__FILE__, __LINE__, "this device has no LinearHeads"); }

void Backend::Xielu(Tensor, const XieluParameters&) { CheckFailed(__FILE__, __LINE__, "this device has no xIELU"); }

}  // namespace ringside
