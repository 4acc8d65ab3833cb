// Joins the parts of single matrices; for packed_tensors.cpp, which has the formats. THREAD: any.
#pragma once

#include <span>
#include <string>

#include "engine/files/packed_tensors.h"
#include "engine/files/tensor_parts.h"

namespace ringside {

inline constexpr int64_t kBlockUnit = 32;                 // inputs of a block
inline constexpr std::string_view kE4M3Name = "F8_E4M3";  // in safetensors

/// The tensor of `parts` [shape] and the blocks that MakeBlocks builds from them.
FileTensor PackedTensor(std::string name, std::vector<int64_t> shape, DType dtype, PackedParts parts);
/// ERRORS: kInvalidArgument unless `inputs` is a multiple of `unit`.
Status CheckInputs(const std::string& name, int64_t inputs, int64_t unit);
/// Sets parts->order and block_groups by the group of each input; groups must consist of whole blocks.
Status SortByGroup(const std::string& name, std::span<const std::byte> g_idx, int64_t groups, PackedParts* parts);
/// Sets parts->block_groups for `group` consecutive inputs per scale.
void UseConsecutiveGroups(int64_t inputs, int64_t group, PackedParts* parts);
/// Moves the float scales of a matrix [matrices * parts->matrix_rows, cols] from `all` to `parts`: one per
/// `parts->block` consecutive inputs. Their product with `largest`, the largest number that they multiply, must be
/// finite.
Status TakeFloatScales(const std::string& name, int64_t matrices, int64_t cols, float largest, TensorParts* all,
                       PackedParts* parts);
/// The matrices of a compressed-tensors file.
Status JoinCompressed(const PackedFormat& format, const SafeTensors& file, TensorParts* all);
/// X.weight or X.weight_packed (`integers`) in NVFP4, with a factor, or its inverse, under `factor`.
Status JoinNvfp4(const std::string& module, const std::string& integers, const std::string& factor, bool inverse,
                 TensorParts* all);
/// X.weight in E4M3, [outputs, inputs] or [experts, outputs, inputs], with scales under `scale`. Without a block they
/// are one per output or one for all.
Status JoinE4M3(const std::string& module, const std::string& scale, const std::optional<ScaleBlock>& block,
                TensorParts* all);

}  // namespace ringside
