// How a backend is to be made, as plain data: what settings say of it (kernels/backend.h makes it).
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "kernels/tensor.h"

namespace ringside {

struct CpuBackendOptions {
  int threads = 0;              // 0 = all cores this process may use
  std::string instruction_set;  // "" = the best there is; "portable", "avx2", "avx_vnni", "avx512", "avx512_vnni", "amx"
};

/// How devices that share a network sum what each has computed.
enum class AllReduce {
  kAuto,  // sums of each size as it was fastest at start; with `deterministic` our own where devices reach each other
  kOwn,   // our own kernels, over memory that devices reach of one another
  kNccl,
};

struct CudaBackendOptions {
  int device = 0;
  DType dtype = DType::kBF16;  // of weights and activations; kF16 or kBF16
  /// Weights of linear layers in kI8 or kF8E4M3 (kernels/formats/row_quantisation.h) instead. Products still are of
  /// `dtype`, but those of more than 16 rows with weights in kF8E4M3 on compute capability 9.0, unless `deterministic`:
  /// there rows become E4M3, too, each with the scale that QuantiseRow gives it.
  std::optional<DType> quantization;
  /// Without `quantization`: weights that a file has in blocks (grouped_layout.h), or in E4M3 with scales, stay as
  /// small as there, but narrow and small matrices, from which little is to be gained: those only with
  /// `keeps_small_blocks`. Off: they become `dtype`.
  bool keeps_blocks = true;
  bool keeps_small_blocks = false;
  double memory_utilization = 0.9;  // share of the free memory taken at start; nothing is allocated later
  size_t memory_bytes = 0;          // > 0: exactly these bytes instead
  bool graphs = true;               // off: every operation is launched by itself
  /// A row's bits depend on nothing but the row, as on the CPU: one order of summation for any number of rows. Slower.
  bool deterministic = false;
  AllReduce all_reduce = AllReduce::kAuto;
};

}  // namespace ringside
