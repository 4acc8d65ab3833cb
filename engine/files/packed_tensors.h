// Weights of 4 bits, and of E4M3, as other quantisers' safetensors have them: in parts, of 4 bits with several integers
// to a word, in an order that suits their own kernels. Here the parts of a matrix become one tensor, whose blocks
// (kernels/tensor.h) are made when it is taken (Whole, file_tensor.h). Pure functions; what they read is hostile input.
//
//   AWQ      X.qweight [in, out / 8] int32: bits 4 i ... 4 i + 3 of a word are output 8 c + {0, 2, 4, 6, 1, 3, 5,
//   7}[i];
//            X.qzeros [groups, out / 8], in the same order; X.scales [groups, out] float16
//   GPTQ     X.qweight [in / 8, out] int32: bits 4 i ... of a word are input 8 r + i; X.qzeros [groups, out / 8], bits
//            4 i ... output 8 c + i; X.scales; X.g_idx [in], the group of each input
//   MXFP4    X_blocks [experts, out, in / 32, 16]: inputs 2 i (low half) and 2 i + 1; X_scales [experts, out, in / 32]
//   E4M3     X.weight [out, in]; X.weight_scale [out] or [out, 1], or one for all. The scales of inputs and caches that
//            may stand beside them, X.input_scale ..., are of no use here: rows get theirs as they are computed
//
// AWQ and GPTQ: weight = scale (integer - zero point) (Lin et al. 2024; Frantar et al. 2023); X is then called
// X.weight.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "engine/files/file_tensor.h"

namespace ringside {

class SafeTensors;

/// How a model's weights are packed, by its config.json.
struct PackedFormat {
  enum class Kind { kAwq, kGptq, kMxfp4, kE4M3 };
  Kind kind = Kind::kMxfp4;
  int64_t group = 0;            // inputs that share a scale, a multiple of 32; 0: all. MXFP4: 32
  bool has_zero_points = true;  // AWQ: else all are 8
  int zero_offset = 0;          // GPTQ: the stored zero points are less by as much, modulo 16
};

/// Where a matrix lies.
struct PackedParts {
  PackedFormat format;
  std::span<const std::byte> integers, scales;
  std::span<const std::byte> zeros;   // none: 8
  std::vector<int32_t> order;         // HostTensor::order
  std::vector<int32_t> block_groups;  // AWQ, GPTQ: the group of each 32 inputs, in this order
  std::vector<float> row_scales;      // E4M3: of each output
};

struct JoinedTensors {
  std::vector<FileTensor> tensors;
  std::vector<std::pair<std::string, std::string>> unsupported;  // names and element types
};

/// The file's tensors, those that are packed in one piece each: of kQ4_Z or kScaledE4M3, outputs by inputs, or of
/// kMXFP4. kCorruption, naming it, for a part that is missing, misshapen or says what cannot be; kInvalidArgument for
/// what we lack.
Result<JoinedTensors> JoinPacked(const SafeTensors& file, const std::optional<PackedFormat>& format);

/// The blocks of `tensor`, which is packed.
void MakeBlocks(const FileTensor& tensor, std::vector<std::byte>* blocks);

}  // namespace ringside
