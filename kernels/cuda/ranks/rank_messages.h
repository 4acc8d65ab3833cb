// Between a step's tensors and the messages that NCCL carries, which lie without gaps: columns into one and out of it,
// a sum onto the residual stream.
#pragma once

#include "kernels/cuda/launch.h"
#include "kernels/tensor.h"

namespace ringside::cuda {

/// y += the sum of so many messages in their order, [count][rows, n] of kF16 or kBF16 without gaps; y kF32, n a
/// multiple of 4.
void LaunchAddMessages(const Launcher& on, const void* messages, DType dtype, int count, Tensor y);
/// message [rows, columns.cols] without gaps = columns, both kF32.
void LaunchPackColumns(const Launcher& on, Tensor columns, float* message);
/// The way back.
void LaunchUnpackColumns(const Launcher& on, const float* message, Tensor columns);

}  // namespace ringside::cuda
