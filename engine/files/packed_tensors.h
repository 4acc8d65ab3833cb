// Packed weights from safetensors of other quantizers: in several tensors, with several integers to a word, in an order
// that suits their kernels. JoinPacked makes one tensor from the parts of a matrix; its blocks (kernels/tensor.h) are
// built when it is read (Whole, file_tensor.h). Pure functions; hostile input.
//
//   AWQ      X.qweight [in, out / 8] int32: bits 4 i ... of a word are output 8 c + {0, 2, 4, 6, 1, 3, 5, 7}[i];
//            X.qzeros [groups, out / 8], in the same order; X.scales [groups, out] float16
//   GPTQ     X.qweight [in / 8, out] int32: bits 4 i ... of a word are input 8 r + i; X.qzeros [groups, out / 8], bits
//            4 i ... output 8 c + i; X.scales; X.g_idx [in], the group of each input (act-order)
//   MXFP4    X_blocks [experts, out, in / 32, 16] or, without experts, of three dimensions: inputs 2 i (low half) and
//            2 i + 1; X_scales [experts, out, in / 32]
//   E4M3     X.weight [out, in], or [experts, out, in]; X.weight_scale [out] or [out, 1], or one for all; or
//            X.weight_scale_inv [out / n, in / k], rounded up, a scale (not its inverse) per n outputs and k inputs
//   NVFP4    (ModelOpt) X.weight [out, in / 2] bytes: inputs 2 i (low half) and 2 i + 1; X.weight_scale [out, in / 16]
//            E4M3; X.weight_scale_2, a factor for all
//
// compressed-tensors (packed_compressed.cpp) has parts of these names:
//
//   int      X.weight_packed [out, in / 8 or in / 4] int32: bits 4 i or 8 i ... of a word are input 8 c + i or 4 c + i,
//            plus 8 or 128; X.weight_shape; X.weight_zero_point [out / 8, groups], bits 4 i ... output 8 r + i, plus 8;
//            X.weight_g_idx. Or X.weight [out, in] int8
//   E4M3     X.weight [out, in]
//   NVFP4    X.weight_packed as X.weight above; X.weight_scale; X.weight_global_scale, a divisor for all
//   MXFP4    X.weight_packed [out, in / 2] bytes, as NVFP4; X.weight_scale [out, in / 32], exponents
//
// and for int and E4M3 X.weight_scale [out or its blocks, in or its groups]. Scales of inputs and caches (X.input_scale
// ...) are ignored: rows are scaled as they are computed. Integer formats: weight = scale (integer - zero point) (Lin
// et al. 2024; Frantar et al. 2023). The joined tensor is named X.weight.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "engine/files/file_tensor.h"

namespace ringside {

class SafeTensors;

/// Outputs and inputs that share a scale; 0: all.
struct ScaleBlock {
  int64_t outputs = 1, inputs = 0;
};

/// How compressed-tensors stores the matrices of some modules.
struct CompressedGroup {
  enum class Kind { kPackedInt, kInt, kE4M3, kNvfp4, kMxfp4 };
  Kind kind = Kind::kPackedInt;
  int bits = 4;      // kPackedInt: 4 or 8
  ScaleBlock block;  // kPackedInt, kInt, kE4M3
  bool symmetric = true;
  bool all = false;                       // for modules that no other group names
  std::vector<std::string> modules = {};  // names, or expressions after "re:"
};

/// The packing of a model's weights, from its config.json.
struct PackedFormat {
  enum class Kind { kAwq, kGptq, kMxfp4, kE4M3, kNvfp4, kCompressed };
  Kind kind = Kind::kMxfp4;
  int64_t group = 0;                     // AWQ, GPTQ: inputs per scale, a multiple of 32; 0: all
  bool has_zero_points = true;           // AWQ: if false, all are 8
  int zero_offset = 0;                   // GPTQ: added to the stored zero points, modulo 16
  std::optional<ScaleBlock> block = {};  // E4M3: that of X.weight_scale_inv
  std::vector<CompressedGroup> groups = {};
  std::vector<std::string> ignored = {};  // compressed-tensors: as CompressedGroup::modules
};

/// The parts of a packed matrix.
struct PackedParts {
  enum class Kind { kAwq, kGptq, kMxfp4, kE4M3, kNvfp4, kGgufNvfp4, kInt4, kInt8, kPlainInt8 };
  Kind kind = Kind::kMxfp4;
  int zero_offset = 0;  // PackedFormat
  std::span<const std::byte> integers, scales;
  std::span<const std::byte> zeros;        // empty: 8
  std::vector<int32_t> order = {};         // HostTensor::order
  std::vector<int32_t> block_groups = {};  // AWQ, GPTQ, int: group of each 32 inputs, in this order
  // Float32 scales, one per `block`: [matrices, outputs / block.outputs, scale_cols]. NVFP4: one factor for all.
  std::vector<float> float_scales = {};
  int64_t matrix_rows = 0, scale_cols = 1;
  ScaleBlock block = {};
};

struct JoinedTensors {
  std::vector<FileTensor> tensors;
  std::vector<std::pair<std::string, std::string>> unsupported;  // names and element types
};

/// The file's tensors, each packed one as a single tensor (outputs by inputs).
/// ERRORS: kCorruption, with the name, for a part that is missing, misshapen or inconsistent, and for a scale that is
/// negative or not finite; kInvalidArgument for an unsupported variant.
Result<JoinedTensors> JoinPacked(const SafeTensors& file, const std::optional<PackedFormat>& format);

/// Builds the blocks of `tensor`. REQUIRES: it is packed.
void MakeBlocks(const FileTensor& tensor, std::vector<std::byte>* blocks);

}  // namespace ringside
