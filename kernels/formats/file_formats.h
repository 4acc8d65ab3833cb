// Block formats as stored in files: reads one block of 32 values, from which a backend builds its own layout.
// Independent of any device.
// THREAD: any.
#pragma once

#include <cstdint>

#include "base/status.h"
#include "kernels/tensor.h"

namespace ringside {

/// A block of 32 values of one output: integers as stored (without offset), and scales, of the type's form
/// (dtypes.def).
struct FileBlock {
  uint8_t q[32];  // integers (Q8_0 and kScaledI8: + 128), or codes of code_values.h
  uint16_t d, m;  // float16; of a super-block, those it shares. Types with a float32 scale: its low and high half
  // Q4_K, Q5_K: scale and minimum. Q3_K, Q6_K: signed scales per 16 values. IQ1_M, IQ2_S: unsigned ones, kScaledNVFP4:
  // E4M3. Q2_K: scales per 16 values with the minimum in the high half. Only the first is used by IQ4_XS (signed),
  // IQ3_XXS, IQ3_S, MXFP4 (an exponent) and Q4_Z (zero point).
  uint8_t scale[2];
};

/// ERRORS: kInvalidArgument if the shape does not fit the format, or the bytes or the order do not fit the shape.
Status CheckWeight(const HostTensor& host);
/// Block b (32 values, also in K formats) of a row of a quantized type.
void ReadFileBlock(DType dtype, const uint8_t* row, int64_t b, FileBlock* out);
/// Whether all values that the block can represent are finite float32: no scale is NaN, infinite or too large, and none
/// of kScaledNVFP4 is negative. For kScaledE4M3 the stored values are checked too.
bool HasFiniteScales(DType dtype, const FileBlock& block);
/// The dequantized value i of the block.
float FileBlockValue(DType dtype, const FileBlock& block, int i);
/// Whether each row of a checked weight of kScaledE4M3 has a single scale.
bool HasScalePerRow(const HostTensor& host);
/// A row of kScaledE4M3: q[c] = its values as stored, c in [0, cols). Returns their scale, or NaN if there is more than
/// one or a value is NaN.
float ReadE4M3Row(const HostTensor& host, int64_t row, uint8_t* q);
/// The value of one stored element of a float type.
float FloatValue(DType dtype, const uint8_t* p);
/// y[c] = the weight of input c in a row of a checked weight of any type, c in [0, cols).
void ReadFileRow(const HostTensor& host, int64_t row, float* y);

}  // namespace ringside
