// A tensor's part of a model's fingerprint. Pure functions. THREAD: any.
#pragma once

#include "base/status.h"
#include "engine/files/file_tensor.h"
#include "engine/model/weights/digest.h"

namespace ringside {

/// Adds a tensor's name, type, shape and bytes. ERRORS: kCorruption, with the tensor, if a value or a block scale is
/// NaN or infinite.
Status DigestTensor(const FileTensor& tensor, Digest* digest);

}  // namespace ringside
