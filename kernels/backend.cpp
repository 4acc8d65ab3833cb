#include "kernels/backend.h"

#include "base/check.h"

namespace ringside {

void Backend::Scale(Tensor, float) { CheckFailed(__FILE__, __LINE__, "this device has no Scale"); }

void Backend::LinearHeads(const HeadsArgs&) { CheckFailed(__FILE__, __LINE__, "this device has no LinearHeads"); }

void Backend::Xielu(Tensor, const XieluParameters&) { CheckFailed(__FILE__, __LINE__, "this device has no xIELU"); }
void Backend::Gate(Tensor, GateKind, Tensor) { CheckFailed(__FILE__, __LINE__, "this device has no gates"); }
void Backend::Recur(const RecurrenceArgs&) { CheckFailed(__FILE__, __LINE__, "this device has no recurrence"); }

}  // namespace ringside
