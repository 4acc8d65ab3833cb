// Conversions of a file's tensors for the network: to floats, transposed, with reordered rows. Pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "engine/families/network_plan.h"
#include "kernels/tensor.h"

namespace ringside {

/// ERRORS: kInvalidArgument, with the tensor, for a quantized type.
Result<std::vector<float>> ToFloats(std::string_view name, const HostTensor& tensor);
/// [rows, cols] to [cols, rows]. REQUIRES: a type without quantization.
std::vector<std::byte> Transposed(const HostTensor& tensor);
/// The given rows of a tensor, concatenated.
std::vector<std::byte> RowsOf(const HostTensor& tensor, std::span<const int64_t> rows);
/// The given rows of a tensor of any type: each run of `rows_of_head` rows transposed, [cols, rows_of_head].
/// ERRORS: kInvalidArgument if the shape does not fit the type.
Result<std::vector<float>> TransposedHeads(const FileTensor& tensor, std::span<const int64_t> rows,
                                           int64_t rows_of_head);
/// Row in the file's tensor of each of the network's `rows` outputs.
std::vector<int64_t> RowsInOrder(RowOrder order, const ModelSpec& spec, int64_t rows);
/// The position table of XGLM (and tensor2tensor), from `first` on: sines, then cosines. [rows, cols]
std::vector<float> SinusoidalPositions(int64_t first, int64_t rows, int64_t cols);

}  // namespace ringside
