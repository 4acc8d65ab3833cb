// Tensors of a file as the network wants them: as floats, transposed, with their rows in another order. Pure functions.
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

/// kInvalidArgument, naming the tensor, for a quantised type.
Result<std::vector<float>> ToFloats(std::string_view name, const HostTensor& tensor);
/// [rows, cols] to [cols, rows], of a type that is not quantised.
std::vector<std::byte> Transposed(const HostTensor& tensor);
/// The given rows of a tensor, one behind the other.
std::vector<std::byte> RowsOf(const HostTensor& tensor, std::span<const int64_t> rows);
/// Where in a file's tensor each of the network's `rows` outputs stands.
std::vector<int64_t> RowsInOrder(RowOrder order, const ModelSpec& spec, int64_t rows);
/// The table of positions of XGLM (and of tensor2tensor), from `first` on: sines, then cosines. [rows, cols]
std::vector<float> SinusoidalPositions(int64_t first, int64_t rows, int64_t cols);

}  // namespace ringside
