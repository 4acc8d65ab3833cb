// The vision tower's part of a model's fingerprint: rows of images depend on it. Pure functions.
#pragma once

#include "base/status.h"
#include "engine/model/weights/digest.h"
#include "engine/model/weights/model_files.h"

namespace ringside {

/// Adds the spec and all tensors. `digest`: null = only a check. ERRORS: as DigestTensor.
Status DigestVision(const VisionFiles& vision, Digest* digest);

}  // namespace ringside
