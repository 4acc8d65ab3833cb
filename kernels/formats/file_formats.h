// Block formats as files store them: one block of 32 values between the file and a backend's own layout. Plain
// functions, any thread; nothing here knows a device.
#pragma once

#include <cstdint>

#include "base/status.h"
#include "kernels/tensor.h"

namespace ringside {

/// A block of 32 values of one output: integers as stored (without offset) and scales.
struct FileBlock {
  uint8_t q[32];  // Q8_0: + 128
  uint16_t d, m;  // float16; of the super-block in K formats and IQ4_XS; kScaledE4M3: the halves of a float32
  // Q4_K, Q5_K: scale and minimum; Q3_K, Q6_K: of 16 values each, signed; Q2_K: of 16 values each, the minimum in the
  // high half; the first alone: IQ4_XS (signed), MXFP4 (an exponent), Q4_Z (zero point).
  uint8_t scale[2];
};

/// kInvalidArgument if the shape does not fit the format or the bytes or the order do not fit the shape.
Status CheckWeight(const HostTensor& host);
/// Block b (32 values, also in K formats) of a row of a quantised type.
void ReadFileBlock(DType dtype, const uint8_t* row, int64_t b, FileBlock* out);
/// Whether everything that the block's integers can be is a float32: no scale is NaN, infinite or too large.
/// kScaledE4M3: and what its values are.
bool HasFiniteScales(DType dtype, const FileBlock& block);
/// What value i of the block stands for.
float FileBlockValue(DType dtype, const FileBlock& block, int i);
/// A row of kScaledE4M3: q[c] = its values as they are stored, c in [0, cols); returns their scale, NaN if there is
/// more than one or a value is NaN.
float ReadE4M3Row(const HostTensor& host, int64_t row, uint8_t* q);
/// The value of one stored element of a float type.
float FloatValue(DType dtype, const uint8_t* p);
/// y[c] = the weight of input c in a row of a checked weight of any type, c in [0, cols).
void ReadFileRow(const HostTensor& host, int64_t row, float* y);

}  // namespace ringside
