// Options of backends, as plain data; kernels/backend.h makes backends from them.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "kernels/tensor.h"

namespace ringside {

struct CpuBackendOptions {
  int threads = 0;              // 0 = all cores this process may use
  std::string instruction_set;  // "": the best available; or one of CpuInstructionSets
};

/// The all-reduce algorithm of a tensor-parallel group.
enum class AllReduce {
  kAuto,  // per message size, the fastest measured at start; with `deterministic` kOwn where devices have peer access
  kOwn,   // our own kernels over peer memory
  kNccl,
};

struct CudaBackendOptions {
  int device = 0;
  DType dtype = DType::kBF16;  // type of weights and activations; kF16 or kBF16
  /// Quantizes the weights of linear layers to kI8 or kF8E4M3 (kernels/formats/row_quantization.h). GEMMs still use
  /// `dtype`, except those of more than 16 rows with kF8E4M3 weights on compute capability 9.0, unless `deterministic`:
  /// these also quantize their input rows to E4M3, each with the scale of QuantizeRow.
  std::optional<DType> quantization;
  /// Without `quantization`: keeps block-quantized weights (block_quant_layout.h), and E4M3 weights with scales, at
  /// their size in the file. Narrow and small matrices, which gain little, are kept so only with `keeps_small_blocks`,
  /// except those of few outputs. Off: weights are dequantized to `dtype`.
  bool keeps_blocks = true;
  bool keeps_small_blocks = false;
  double memory_utilization = 0.9;  // share of free memory allocated at start; nothing is allocated later
  size_t memory_bytes = 0;          // > 0: exactly these bytes instead
  bool graphs = true;               // off: every operation is launched individually, without CUDA graphs
  /// A row's bits depend on nothing but the row, as on the CPU: one summation order for any number of rows. Slower.
  bool deterministic = false;
  AllReduce all_reduce = AllReduce::kAuto;
};

}  // namespace ringside
