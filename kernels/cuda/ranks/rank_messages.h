// Converts between a step's tensors and contiguous NCCL messages: packs and unpacks columns, and sums
// messages.
#pragma once

#include "kernels/cuda/launch.h"
#include "kernels/tensor.h"

namespace ringside::cuda {

/// y += or = the sum of `count` messages in order. Messages [count][rows, n] are contiguous kF16 or kBF16; y is kF32, n
/// a multiple of 4.
void LaunchSumMessages(const Launcher& on, const void* messages, DType dtype, int count, Tensor y, bool accumulate);
/// Copies columns to the contiguous message [rows, columns.cols]; both kF32.
void LaunchPackColumns(const Launcher& on, Tensor columns, float* message);
/// The inverse of LaunchPackColumns.
void LaunchUnpackColumns(const Launcher& on, const float* message, Tensor columns);

}  // namespace ringside::cuda
