// GGML's block formats as files store them: one block of 32 values between the file and a backend's own layout. Plain
// functions, any thread; nothing here knows a device.
#pragma once

#include <cstdint>

#include "base/status.h"
#include "kernels/tensor.h"

namespace ringside {

/// A block of 32 values of one output: integers as stored (without offset) and scales.
struct FileBlock {
  uint8_t q[32];     // Q8_0: + 128
  uint16_t d, m;     // float16; of the super-block in K formats
  uint8_t scale[2];  // K formats: scale and minimum, or the two scales of Q6_K
};

/// kInvalidArgument if the shape does not fit the format or the bytes do not fit the shape.
Status CheckWeight(const HostTensor& host);
/// Block b (32 values, also in K formats) of a row of a quantised type.
void ReadFileBlock(DType dtype, const uint8_t* row, int64_t b, FileBlock* out);
/// What value i of the block stands for.
float FileBlockValue(DType dtype, const FileBlock& block, int i);
/// The value of one stored element of a float type.
float FloatValue(DType dtype, const uint8_t* p);
/// y[c] = value (row, c) of a checked weight of any type, c in [0, cols).
void ReadFileRow(const HostTensor& host, int64_t row, float* y);

}  // namespace ringside
