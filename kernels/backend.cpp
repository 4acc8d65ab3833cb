#include "kernels/backend.h"

#include "base/check.h"

namespace ringside {

namespace {
[[noreturn]] void LackStreams() { CheckFailed(__FILE__, __LINE__, "this device has no operations of several streams"); }
[[noreturn]] void LackRankNorms() { CheckFailed(__FILE__, __LINE__, "this device has no norms of shared values"); }
}  // namespace

void Backend::ScaleColumns(Tensor, const float*) { LackStreams(); }
void Backend::AddScaledRows(Tensor, Tensor, Tensor) { LackStreams(); }
void Backend::MatchMagnitude(Tensor, Tensor) { LackStreams(); }
void Backend::Sparsify(Tensor, float) { LackStreams(); }

void Backend::Scale(Tensor, float) { CheckFailed(__FILE__, __LINE__, "this device has no Scale"); }

void Backend::LinearHeads(const HeadsArgs&) { CheckFailed(__FILE__, __LINE__, "this device has no LinearHeads"); }

void Backend::Xielu(Tensor, const XieluParameters&) { CheckFailed(__FILE__, __LINE__, "this device has no xIELU"); }
void Backend::Gate(Tensor, GateKind, Tensor) { CheckFailed(__FILE__, __LINE__, "this device has no gates"); }
void Backend::Recur(const RecurrenceArgs&) { CheckFailed(__FILE__, __LINE__, "this device has no recurrence"); }
void Backend::AllReduceInPlace(Tensor) { LackRankNorms(); }
void Backend::RmsNormOfRanks(Tensor, int64_t, bool, const float*, float) { LackRankNorms(); }

}  // namespace ringside
