#include "kernels/cuda/linear/linear_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <limits>

#include "kernels/cuda/linear/linear_sizes.h"
#include "kernels/cuda/linear/linear_tiling.h"

namespace ringside::cuda {
namespace {

constexpr int64_t kAnyRows = std::numeric_limits<int64_t>::max();

/// What is multiplied.
enum class Operands : uint8_t { kSameType, kRowScales, kGroupScales, kE4M3, kPanel };
/// What a device must have.
enum class Needs : uint8_t { kNothing, kHopper, kWgmma };

Operands OperandsOf(const LinearLayer& layer) {
  if (layer.panel) return Operands::kPanel;
  if (layer.x.dtype == DType::kF8E4M3) return Operands::kE4M3;
  if (HasRowScales(layer.weights)) return Operands::kRowScales;
  return HasGroupScales(layer.weights) ? Operands::kGroupScales : Operands::kSameType;
}

// ---- preconditions of the kernels, beyond the columns of the table

/// Whether the type and the 16-byte loads of the GEMV and small-M kernels are possible.
bool AllowsVectorLoads(const LinearCase& of) {
  const LinearLayer& layer = of.layer;
  return layer.k % 8 == 0 && layer.x.dtype == layer.dtype && layer.x.stride % 8 == 0 && layer.x.aligned &&
         layer.weights_aligned;
}
/// Whether the TMA can copy boxes of rows of x.
bool AllowsBoxes(const LinearCase& of) {
  return of.layer.x.dtype == of.layer.dtype && of.layer.x.stride % 8 == 0 && of.layer.x.aligned;
}
bool AllowsFloat4(const MatrixLayout& layout, int64_t cols) {
  return cols % 4 == 0 && layout.stride % 4 == 0 && layout.aligned;
}
/// Whether cuBLAS supports the operands; x is converted to the GEMM's type first.
bool AllowsCublas(const LinearCase& of) {
  const LinearLayer& layer = of.layer;
  const bool converted = layer.x.dtype != layer.dtype;
  return layer.k % 8 == 0 && (converted || layer.x.stride % 8 == 0) &&
         (layer.y.dtype == DType::kF32 || layer.y.dtype == layer.dtype);
}
/// Whether groups of `size` outputs never straddle two matrices, or the gates and ups.
bool EndsWith(const LinearCase& of, int64_t size) {
  int64_t rest = of.layer.total();
  for (const int64_t outputs : of.layer.outputs) {
    if (rest <= 0) break;
    rest -= outputs;
    if (rest > 0 && outputs % size != 0) return false;
  }
  return !of.gate_up() || of.layer.total() / 2 % size == 0;
}

bool Always(const LinearCase&) { return true; }

bool SupportsGemvBlockQuant(const LinearCase& of) {
  return of.layer.k >= kMinGemvInputs && EndsWith(of, kTileRows) && AllowsVectorLoads(of) &&
         BlockQuantGemvTile(of).stages >= kMinStages;
}
bool SupportsBlockQuantGemm(const LinearCase& of) {
  return of.layer.rows <= of.tuning().block_quant_rows && (!of.gate_up() || EndsWith(of, kPanelRows)) &&
         AllowsBoxes(of);
}
bool SupportsQuantizedRows(const LinearCase& of) {
  const LinearLayer& layer = of.layer;
  const int64_t row_bytes = DivideUp(layer.k, 16) * 16 + static_cast<int64_t>(sizeof(float));
  return layer.weights == DType::kF8E4M3 && layer.rows >= of.tuning().fp8_rows && AllowsBoxes(of) &&
         layer.k <= kMaxQuantizedRowValues && AllowsCublas(of) && layer.y.stride % 8 == 0 && layer.y.aligned &&
         layer.rows * row_bytes <= layer.scratch_bytes / 8 * 7 &&
         std::ranges::all_of(layer.outputs, [](int64_t outputs) { return outputs % 16 == 0; });
}
bool SupportsGemv(const LinearCase& of) { return AllowsVectorLoads(of) && FitsGemv(of); }
bool SupportsW8A16(const LinearCase& of) { return of.layer.k >= kMinGemvInputs && AllowsVectorLoads(of); }
bool SupportsSmallGemm(const LinearCase& of) {
  const int64_t max_rows = of.small() || of.layer.fixed_order ? kMaxSmallGemmRows : kMaxLargeSmallGemmRows;
  return of.layer.rows <= max_rows && AllowsVectorLoads(of);
}
/// Small matrices of up to 32 rows are left to small_gemm.cu: its blocks are so small that the next kernel's blocks fit
/// beside them. Measured on an H200: steps of SmolLM2-135M, whose layers are all narrow, are 6 to 20 % shorter with it;
/// those of GPT-2, whose only such layer is 1,024 x 1,024, were 3 to 4 % longer.
bool IsNarrow(const LinearCase& of) {
  return std::min(of.layer.k, of.layer.total()) < of.tuning().narrow && of.small() && SupportsSmallGemm(of);
}
/// Also fewer rows than five if they do not fit in the shared memory of a GEMV.
bool SupportsWgmmaGemm(const LinearCase& of) {
  const LinearLayer& layer = of.layer;
  if (layer.rows <= kMaxGemvRows && FitsGemv(of)) return false;
  if (layer.accumulate && layer.y.dtype != DType::kF32) return false;
  if (of.gate_up()) {
    if (layer.total() % 16 != 0 || layer.accumulate || !layer.bias.aligned) return false;
    if (!AllowsFloat4(layer.y, layer.total()) || !AllowsFloat4(of.product, layer.total() / 2)) return false;
    if (of.product.dtype != layer.dtype) return false;
  }
  return layer.k % 8 == 0 && layer.weights_aligned && layer.contiguous && AllowsBoxes(of);
}
bool SupportsFp8Gemm(const LinearCase& of) {
  const LinearLayer& layer = of.layer;
  return layer.weights_aligned && layer.x.aligned && layer.x.stride % 16 == 0 && layer.scales_aligned &&
         AllowsFloat4(layer.y, layer.total()) && (!layer.accumulate || layer.y.dtype == DType::kF32);
}
bool SupportsPanelInFixedOrder(const LinearCase& of) {
  return of.layer.fixed_order && AllowsCublas(of) && SupportsSmallGemm(of);
}

LinearTile NoTile(const LinearCase&) { return {}; }

// ---- the table

struct Row {
  Operands operands;
  LinearKernel kernel;
  int64_t max_rows;  // of x
  Needs needs;
  bool norm;         // can fuse the preceding norm
  bool epilogue;     // can fuse the operation after it
  bool fixed_order;  // can sum in one order for any number of rows
  bool (*supports)(const LinearCase&);
  LinearTile (*tile)(const LinearCase&);
};

/// The first row that supports a layer is its plan. The rows of an operand kind are ordered by speed.
constexpr Row kTable[] = {
    {Operands::kGroupScales, LinearKernel::kGemvBlockQuant, kMaxGemvRows, Needs::kNothing, true, true, false,
     SupportsGemvBlockQuant, BlockQuantGemvTile},
    {Operands::kGroupScales, LinearKernel::kBlockQuantGemm, kAnyRows, Needs::kWgmma, false, true, false,
     SupportsBlockQuantGemm, BlockQuantGemmTile},

    {Operands::kRowScales, LinearKernel::kQuantizeRows, kAnyRows, Needs::kHopper, false, false, false,
     SupportsQuantizedRows, NoTile},
    {Operands::kRowScales, LinearKernel::kGemvW8, kMaxGemvRows, Needs::kNothing, true, true, false, SupportsGemv,
     GemvTile},
    {Operands::kRowScales, LinearKernel::kW8A16Gemm, kMaxW8Rows, Needs::kNothing, false, true, true, SupportsW8A16,
     W8A16GemmTile},

    {Operands::kE4M3, LinearKernel::kFp8Gemm, kMaxFp8Rows, Needs::kWgmma, false, false, false, SupportsFp8Gemm,
     Fp8GemmTile},
    {Operands::kE4M3, LinearKernel::kCublasFp8, kAnyRows, Needs::kNothing, false, false, false, Always, NoTile},

    {Operands::kSameType, LinearKernel::kGemv, kMaxGemvRows, Needs::kNothing, true, true, false, SupportsGemv,
     GemvTile},
    {Operands::kSameType, LinearKernel::kSmallGemm, kMaxSmallGemmRows, Needs::kNothing, true, true, true, IsNarrow,
     SmallGemmTile},
    {Operands::kSameType, LinearKernel::kWgmmaGemm, kMaxWgmmaGemmRows, Needs::kWgmma, false, true, false,
     SupportsWgmmaGemm, WgmmaGemmTile},
    {Operands::kSameType, LinearKernel::kSmallGemm, kMaxSmallGemmRows, Needs::kNothing, true, true, true,
     SupportsSmallGemm, SmallGemmTile},

    {Operands::kPanel, LinearKernel::kSmallGemm, kMaxSmallGemmRows, Needs::kNothing, false, false, true,
     SupportsPanelInFixedOrder, SmallGemmTile},
};

bool Has(const DeviceTraits& device, Needs needs) {
  return needs == Needs::kNothing || (needs == Needs::kHopper ? device.hopper : device.wgmma);
}

bool Supports(const Row& row, const LinearCase& of) {
  return row.operands == OperandsOf(of.layer) && of.layer.rows <= row.max_rows && Has(of.device, row.needs) &&
         (row.norm || !of.norm) && (row.epilogue || of.epilogue == LinearEpilogue::kNothing) &&
         (row.fixed_order || !of.layer.fixed_order) && row.supports(of);
}

const Row* FirstRow(const LinearCase& of) {
  const auto* row = std::ranges::find_if(kTable, [&](const Row& one) { return Supports(one, of); });
  return row == std::end(kTable) ? nullptr : row;
}
bool SupportsKernel(LinearKernel kernel, const LinearCase& of) {
  return std::ranges::any_of(kTable, [&](const Row& one) { return one.kernel == kernel && Supports(one, of); });
}

/// Every block recomputes a fused norm.
bool CanFuseNorm(const LinearLayer& layer) {
  return layer.rows <= 4 && layer.k <= 4096 && layer.rows * layer.k <= 8192;
}

/// Two layers in one launch share the fused norm, or neither has one.
struct Pair {
  LinearKernel kernel;
  std::pair<LinearTile, LinearTile> (*tiles)(const LinearCase&, const LinearCase&);
};
constexpr Pair kPairs[] = {
    {LinearKernel::kGemvBlockQuant, TwoBlockQuantGemvTiles},
    {LinearKernel::kBlockQuantGemm, TwoBlockQuantGemmTiles},
};

void AddPartner(const LinearCase& of, const LinearLayer& partner, LinearPlan* plan) {
  const LinearCase next{of.device, partner, plan->norm};
  const auto* pair = std::ranges::find(kPairs, plan->kernel, &Pair::kernel);
  if (pair == std::end(kPairs) || !SupportsKernel(plan->kernel, next)) return;
  if (!HasPairKernel(of.layer.weights, partner.weights)) return;
  const auto [own, other] = pair->tiles(of, next);
  const bool streams = plan->kernel == LinearKernel::kGemvBlockQuant;
  if (streams && (own.stages < kMinStages || other.stages < kMinStages)) return;
  plan->tile = own, plan->partner = true, plan->partner_tile = other;
}

void AddEpilogue(const LinearCase& of, const LinearRequest& request, LinearPlan* plan) {
  LinearCase fused = of;
  fused.epilogue = request.epilogue, fused.product = request.product;
  if (request.layer.accumulate || request.epilogue == LinearEpilogue::kNothing) return;
  if (fused.gate_up() && (request.product.dtype != of.layer.dtype || of.layer.total() % 2 != 0)) return;
  const Row* row = FirstRow(fused);
  if (row == nullptr || row->kernel != plan->kernel) return;
  plan->epilogue = request.epilogue, plan->tile = row->tile(fused);
}

/// cuBLAS, or the reference kernel for shapes that it does not support.
LinearPlan PlanWithoutRow(const LinearCase& of, const LinearRequest& request) {
  const LinearLayer& layer = of.layer;
  LinearPlan plan;
  if (!AllowsCublas(of)) return plan;
  plan.kernel = LinearKernel::kCublas;
  const VectorLayout& bias = layer.y.dtype == DType::kF32 ? layer.bias : layer.rounded_bias;
  plan.bias = OperandsOf(layer) == Operands::kSameType && !layer.fixed_order && bias.present && bias.aligned &&
              layer.contiguous;
  if (plan.bias && request.epilogue == LinearEpilogue::kGeluTanh) plan.epilogue = request.epilogue;
  return plan;
}

Status CheckLayer(const LinearLayer& layer) {
  constexpr int64_t kMaxSize = std::numeric_limits<int32_t>::max();
  const auto in_range = [](int64_t size) { return size >= 1 && size <= kMaxSize; };
  if (!in_range(layer.rows) || !in_range(layer.k) || !in_range(layer.total()) || layer.outputs[0] < 1 ||
      std::ranges::any_of(layer.outputs, [](int64_t outputs) { return outputs < 0; })) {
    return InvalidArgument(fmt::format("a layer of {} rows, {} inputs and {} outputs: all three must be 1 to {}",
                                       layer.rows, layer.k, layer.total(), kMaxSize));
  }
  if (layer.dtype != DType::kF16 && layer.dtype != DType::kBF16) {
    return InvalidArgument(fmt::format("GEMMs in {}: the type must be f16 or bf16", Traits(layer.dtype).name));
  }
  if (layer.weights != layer.dtype && !HasRowScales(layer.weights) && !HasGroupScales(layer.weights)) {
    return InvalidArgument(fmt::format("weights of type {} in a GEMM of {}: no kernel multiplies them",
                                       Traits(layer.weights).name, Traits(layer.dtype).name));
  }
  const bool one_byte = layer.x.dtype == DType::kF8E4M3;
  if (one_byte ? layer.weights != DType::kF8E4M3 || layer.panel
               : HasRowScales(layer.x.dtype) || IsQuantized(layer.x.dtype)) {
    return InvalidArgument(fmt::format("rows of type {} and weights of type {}: no kernel multiplies them",
                                       Traits(layer.x.dtype).name, Traits(layer.weights).name));
  }
  return Status::Ok();
}

}  // namespace

std::string_view LinearKernelName(LinearKernel kernel) {
  constexpr std::string_view kNames[] = {"Gemv",      "GemvW8",    "GemvBlockQuant", "SmallGemm",
                                         "WgmmaGemm", "W8A16Gemm", "BlockQuantGemm", "QuantizeRows",
                                         "Fp8Gemm",   "CublasFp8", "Cublas",         "ReferenceGemm"};
  return kNames[static_cast<size_t>(kernel)];
}

int LinearTableRows() { return static_cast<int>(std::size(kTable)); }

Result<LinearPlan> PlanLinear(const DeviceTraits& device, const LinearRequest& request) {
  RETURN_IF_ERROR(CheckLayer(request.layer));
  if (request.partner) RETURN_IF_ERROR(CheckLayer(*request.partner));
  const bool fuses = !request.layer.fixed_order;  // a fused operation might round elsewhere
  LinearCase of{device, request.layer, fuses && request.norm && CanFuseNorm(request.layer)};
  const Row* row = FirstRow(of);
  if (row == nullptr && of.norm) of.norm = false, row = FirstRow(of);
  if (row == nullptr) return PlanWithoutRow(of, request);
  LinearPlan plan{
      .kernel = row->kernel, .row = static_cast<int>(row - std::begin(kTable)), .tile = row->tile(of), .norm = of.norm};
  // With overlap, the blocks of a large SmallGemm become resident one by one as the preceding kernel drains, are
  // distributed unevenly over the SMs, and stay there: one step of an 8B model takes 4.9 ms without overlap and 6.6 to
  // 7.2 ms with it. A small matrix takes a single wave, where overlap saves 10 %. A panel is written by the preceding
  // kernel, and kernels prefetch weights before they wait for it.
  plan.overlap = row->kernel != LinearKernel::kSmallGemm || (of.small() && !request.layer.panel);
  if (fuses && request.partner) AddPartner(of, *request.partner, &plan);
  if (fuses) AddEpilogue(of, request, &plan);
  return plan;
}

}  // namespace ringside::cuda
