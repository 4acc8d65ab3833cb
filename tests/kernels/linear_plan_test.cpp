// Selection of linear kernels: golden plans of known layers, every row of the table, and typed errors. No GPU.
#include "kernels/cuda/linear/linear_plan.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

namespace ringside::cuda {
namespace {

DeviceTraits Device(std::string_view capability) {
  Result<DeviceTraits> device = TypicalDevice(capability);
  EXPECT_TRUE(device.ok());
  return device.value();
}

/// A layer of dense, aligned matrices.
LinearLayer Layer(int64_t rows, int64_t k, std::array<int64_t, kMaxLayerWeights> outputs, DType weights) {
  LinearLayer layer{.rows = rows, .k = k, .outputs = outputs, .weights = weights};
  if (weights == DType::kF16) layer.dtype = DType::kF16;
  layer.x = {.dtype = layer.dtype, .stride = k}, layer.y = {.dtype = DType::kF32, .stride = layer.total()};
  return layer;
}

LinearPlan Plan(const LinearRequest& request, std::string_view capability = "9.0") {
  Result<LinearPlan> plan = PlanLinear(Device(capability), request);
  EXPECT_TRUE(plan.ok()) << plan.status().message();
  return plan.value();
}

/// "BlockQuantGemm 256x32 k2 b112 norm epilogue": kernel, tile, split-K, blocks, fused neighbours.
std::string Text(const LinearPlan& plan) {
  std::string out(LinearKernelName(plan.kernel));
  const LinearTile& tile = plan.tile;
  if (tile.outputs > 0) out += fmt::format(" {}x{} k{} b{}", tile.outputs, tile.rows, tile.split_k, tile.blocks);
  if (plan.norm) out += " norm";
  if (plan.epilogue != LinearEpilogue::kNothing) out += " epilogue";
  if (plan.bias) out += " bias";
  if (plan.partner) out += fmt::format(" partner b{}", plan.partner_tile.blocks);
  return out;
}

/// The layers of Llama-3-8B: queries, keys and values after a norm; the output of attention, added to the residual;
/// gate and up after a norm; down, added to the residual; the head.
enum class Part { kQkv, kOut, kGateUp, kDown, kHead };

LinearRequest Llama8B(Part part, int64_t rows, DType weights) {
  switch (part) {
    case Part::kQkv:
      return {.layer = Layer(rows, 4096, {4096, 1024, 1024}, weights), .norm = true};
    case Part::kOut: {
      LinearRequest request{.layer = Layer(rows, 4096, {4096}, weights)};
      request.layer.accumulate = true;
      return request;
    }
    case Part::kGateUp: {
      LinearRequest request{.layer = Layer(rows, 4096, {14336, 14336}, weights), .norm = true};
      request.layer.y.dtype = request.layer.dtype;
      request.epilogue = LinearEpilogue::kSiluMultiply;
      request.product = {.dtype = request.layer.dtype, .stride = 14336};
      return request;
    }
    case Part::kDown: {
      LinearRequest request{.layer = Layer(rows, 14336, {4096}, weights)};
      request.layer.accumulate = true;
      return request;
    }
    case Part::kHead:
      return {.layer = Layer(rows, 4096, {128256}, weights)};
  }
  return {};
}

struct Golden {
  Part part;
  int64_t rows;
  const char* plan;
};

TEST(LinearPlan, PlansLlama8BInBf16) {
  constexpr Golden kGolden[] = {
      {Part::kQkv, 1, "Gemv 8x4 k1 b264 norm"},
      {Part::kOut, 1, "Gemv 8x4 k1 b264"},
      {Part::kGateUp, 1, "Gemv 16x4 k1 b264 norm epilogue"},
      {Part::kDown, 1, "Gemv 8x4 k1 b264"},
      {Part::kHead, 1, "Gemv 8x4 k1 b264"},
      {Part::kQkv, 8, "WgmmaGemm 96x64 k2 b128"},
      {Part::kOut, 8, "WgmmaGemm 64x64 k2 b128"},
      {Part::kGateUp, 8, "WgmmaGemm 112x64 k1 b256 epilogue"},
      {Part::kDown, 8, "WgmmaGemm 64x64 k2 b128"},
      {Part::kHead, 8, "WgmmaGemm 128x64 k1 b251"},
      {Part::kQkv, 32, "WgmmaGemm 96x64 k2 b128"},
      {Part::kOut, 32, "WgmmaGemm 64x64 k2 b128"},
      {Part::kGateUp, 32, "WgmmaGemm 112x64 k1 b256 epilogue"},
      {Part::kDown, 32, "WgmmaGemm 64x64 k2 b128"},
      {Part::kHead, 32, "WgmmaGemm 128x64 k1 b251"},
      {Part::kQkv, 128, "Cublas"},
      {Part::kOut, 128, "Cublas"},
      {Part::kGateUp, 128, "Cublas"},
      {Part::kDown, 128, "Cublas"},
      {Part::kHead, 128, "Cublas"},
      {Part::kQkv, 512, "Cublas"},
      {Part::kOut, 512, "Cublas"},
      {Part::kGateUp, 512, "Cublas"},
      {Part::kDown, 512, "Cublas"},
      {Part::kQkv, 2048, "Cublas"},
      {Part::kOut, 2048, "Cublas"},
      {Part::kGateUp, 2048, "Cublas"},
      {Part::kDown, 2048, "Cublas"},
  };
  for (const Golden& golden : kGolden) {
    const LinearRequest request = Llama8B(golden.part, golden.rows, DType::kBF16);
    EXPECT_EQ(Text(Plan(request)), golden.plan) << static_cast<int>(golden.part) << " at " << golden.rows << " rows";
  }
}

TEST(LinearPlan, PlansLlama8BInQ4KM) {
  constexpr Golden kGolden[] = {
      {Part::kQkv, 1, "GemvBlockQuant 16x1 k1 b200 norm partner b64"},
      {Part::kOut, 1, "GemvBlockQuant 16x1 k1 b256"},
      {Part::kGateUp, 1, "GemvBlockQuant 16x1 k1 b264 norm epilogue"},
      {Part::kDown, 1, "GemvBlockQuant 16x1 k1 b132"},
      {Part::kHead, 1, "GemvBlockQuant 16x1 k1 b264"},
      {Part::kQkv, 8, "BlockQuantGemm 256x16 k5 b100 partner b20"},
      {Part::kOut, 8, "BlockQuantGemm 256x16 k8 b128"},
      {Part::kGateUp, 8, "BlockQuantGemm 256x16 k1 b112 epilogue"},
      {Part::kDown, 8, "BlockQuantGemm 256x16 k8 b128"},
      {Part::kHead, 8, "BlockQuantGemm 256x16 k1 b501"},
      {Part::kQkv, 32, "BlockQuantGemm 256x32 k5 b100 partner b20"},
      {Part::kOut, 32, "BlockQuantGemm 256x32 k8 b128"},
      {Part::kGateUp, 32, "BlockQuantGemm 256x32 k1 b112 epilogue"},
      {Part::kDown, 32, "BlockQuantGemm 256x32 k8 b128"},
      {Part::kHead, 32, "BlockQuantGemm 256x32 k1 b501"},
      {Part::kQkv, 128, "BlockQuantGemm 256x128 k5 b100 partner b20"},
      {Part::kOut, 128, "BlockQuantGemm 256x128 k8 b128"},
      {Part::kGateUp, 128, "BlockQuantGemm 256x128 k1 b112 epilogue"},
      {Part::kDown, 128, "BlockQuantGemm 256x128 k8 b128"},
      {Part::kHead, 128, "BlockQuantGemm 256x128 k1 b501"},
      {Part::kQkv, 512, "BlockQuantGemm 256x128 k1 b80 partner b16"},
      {Part::kOut, 512, "BlockQuantGemm 256x128 k2 b128"},
      {Part::kGateUp, 512, "BlockQuantGemm 256x128 k1 b448 epilogue"},
      {Part::kDown, 512, "BlockQuantGemm 256x128 k2 b128"},
      {Part::kQkv, 2048, "Cublas"},
      {Part::kOut, 2048, "Cublas"},
      {Part::kGateUp, 2048, "Cublas"},
      {Part::kDown, 2048, "Cublas"},
  };
  for (const Golden& golden : kGolden) {
    const bool six = golden.part == Part::kDown || golden.part == Part::kHead;
    LinearRequest request = Llama8B(golden.part, golden.rows, six ? DType::kBlockQuant6 : DType::kBlockQuant4);
    if (golden.part == Part::kQkv) {  // values have six bits, so they are a separate layer
      request.layer.outputs = {4096, 1024};
      request.partner = Layer(golden.rows, 4096, {1024}, DType::kBlockQuant6);
    }
    EXPECT_EQ(Text(Plan(request)), golden.plan) << static_cast<int>(golden.part) << " at " << golden.rows << " rows";
  }
}

TEST(LinearPlan, ReachesEveryRowOfTheTable) {
  LinearLayer quantized = Layer(32, 4096, {4096}, DType::kF8E4M3);
  quantized.x.dtype = DType::kF8E4M3;
  LinearLayer wide = quantized;
  wide.rows = 512;
  LinearLayer large = Layer(16, 4096, {4096}, DType::kBF16);
  large.fixed_order = true;
  LinearLayer panel = large;
  panel.panel = true;
  const LinearLayer layers[] = {
      Layer(1, 4096, {4096}, DType::kBlockQuant4),
      Layer(32, 4096, {4096}, DType::kBlockQuant4),
      Layer(32, 4096, {4096}, DType::kF8E4M3),
      Layer(1, 4096, {4096}, DType::kI8),
      Layer(32, 4096, {4096}, DType::kI8),
      quantized,
      wide,
      Layer(1, 4096, {4096}, DType::kBF16),
      Layer(8, 576, {576}, DType::kBF16),
      Layer(8, 4096, {4096}, DType::kBF16),
      large,
      panel,
      Layer(512, 4096, {4096}, DType::kBF16),
  };
  std::set<int> reached;
  for (const LinearLayer& layer : layers) reached.insert(Plan({.layer = layer}).row);
  std::set<int> all = {-1};
  for (int row = 0; row < LinearTableRows(); ++row) all.insert(row);
  EXPECT_EQ(reached, all);
}

TEST(LinearPlan, LeavesWgmmaToCapability90) {
  const LinearLayer bf16 = Layer(32, 4096, {4096}, DType::kBF16), blocks = Layer(32, 4096, {4096}, DType::kBlockQuant4),
                    fp8 = Layer(32, 4096, {4096}, DType::kF8E4M3);
  EXPECT_EQ(Plan({.layer = bf16}, "9.0").kernel, LinearKernel::kWgmmaGemm);
  EXPECT_EQ(Plan({.layer = blocks}, "9.0").kernel, LinearKernel::kBlockQuantGemm);
  EXPECT_EQ(Plan({.layer = fp8}, "9.0").kernel, LinearKernel::kQuantizeRows);
  for (const std::string_view other : {"8.0", "8.9", "10.0", "12.0"}) {
    EXPECT_EQ(Plan({.layer = bf16}, other).kernel, LinearKernel::kCublas) << other;
    EXPECT_EQ(Plan({.layer = blocks}, other).kernel, LinearKernel::kCublas) << other;
    EXPECT_EQ(Plan({.layer = fp8}, other).kernel, LinearKernel::kW8A16Gemm) << other;
  }
}

TEST(LinearPlan, UsesClustersOnlyWhereTheDeviceHasThem) {
  EXPECT_GT(Plan({.layer = Layer(32, 4096, {1024}, DType::kI8)}, "9.0").tile.split_k, 1);
  EXPECT_EQ(Plan({.layer = Layer(32, 4096, {1024}, DType::kI8)}, "8.0").tile.split_k, 1);
}

TEST(LinearPlan, FusesNormsOfFewShortRows) {
  EXPECT_TRUE(Plan({.layer = Layer(2, 4096, {4096}, DType::kBF16), .norm = true}).norm);
  EXPECT_FALSE(Plan({.layer = Layer(3, 4096, {4096}, DType::kBF16), .norm = true}).norm);
  EXPECT_TRUE(Plan({.layer = Layer(4, 2048, {4096}, DType::kBlockQuant4), .norm = true}).norm);
  EXPECT_FALSE(Plan({.layer = Layer(1, 8192, {4096}, DType::kBlockQuant4), .norm = true}).norm);
}

TEST(LinearPlan, KeepsTheKernelThatAnEpilogueCannotChange) {
  LinearRequest request = Llama8B(Part::kGateUp, 8, DType::kBF16);
  EXPECT_EQ(Plan(request).epilogue, LinearEpilogue::kSiluMultiply);
  request.product.aligned = false;  // the WGMMA kernel stores four values at a time
  EXPECT_EQ(Plan(request).kernel, LinearKernel::kWgmmaGemm);
  EXPECT_EQ(Plan(request).epilogue, LinearEpilogue::kNothing);
  request = {.layer = Layer(8, 4096, {4096}, DType::kBF16), .epilogue = LinearEpilogue::kGeluErf};
  EXPECT_EQ(Plan(request).epilogue, LinearEpilogue::kGeluErf);
  request.layer.accumulate = true;  // GELU applies to the whole sum
  EXPECT_EQ(Plan(request).epilogue, LinearEpilogue::kNothing);
}

TEST(LinearPlan, PairsOnlyTypesThatFilesCombine) {
  LinearRequest request{.layer = Layer(1, 4096, {4096, 1024}, DType::kBlockQuant4)};
  request.partner = Layer(1, 4096, {1024}, DType::kBlockQuant6);
  EXPECT_TRUE(Plan(request).partner);
  request.partner->weights = DType::kBlockQuant5;
  EXPECT_FALSE(Plan(request).partner);
  request.layer.weights = DType::kBlockQuant5, request.partner->weights = DType::kBlockQuant4;
  EXPECT_TRUE(Plan(request).partner);
  request.partner->weights = DType::kBF16;
  EXPECT_FALSE(Plan(request).partner);
}

// A gated DeltaNet's channels, and its gate with a few projections per head.
TEST(LinearPlan, PairsMatricesThatAreNoWholePanels) {
  for (const int64_t rows : {1, 4, 32}) {
    LinearRequest request{.layer = Layer(rows, 2048, {8192}, DType::kBlockQuant5)};
    request.partner = Layer(rows, 2048, {4096, 32, 32}, DType::kBlockQuant4);
    const LinearPlan plan = Plan(request);
    EXPECT_TRUE(plan.partner) << rows;
    EXPECT_EQ(plan.kernel, rows <= 4 ? LinearKernel::kGemvBlockQuant : LinearKernel::kBlockQuantGemm) << rows;
  }
  // Each matrix begins a panel: 64, 64 and 64 outputs instead of 96.
  EXPECT_EQ(Plan({.layer = Layer(1024, 2048, {32, 32, 32}, DType::kBlockQuant4)}).tile.blocks,
            Plan({.layer = Layer(1024, 2048, {192}, DType::kBlockQuant4)}).tile.blocks);
}

// One block per multiprocessor has three tiles of 16 outputs, two have up to two each.
TEST(LinearPlan, DividesLongRowsOverOneBlockPerMultiprocessor) {
  EXPECT_EQ(Plan({.layer = Layer(1, 17408, {5120}, DType::kBlockQuant4)}).tile.blocks, 132);
  EXPECT_EQ(Plan({.layer = Layer(1, 6144, {5120}, DType::kBlockQuant4)}).tile.blocks, 264);
  EXPECT_EQ(Plan({.layer = Layer(1, 17408, {4096}, DType::kBlockQuant4)}).tile.blocks, 256);
}

TEST(LinearPlan, SumsInOneOrderForAnyNumberOfRows) {
  for (const DType weights : {DType::kBF16, DType::kI8}) {
    LinearLayer layer = Layer(1, 4096, {4096}, weights);
    layer.fixed_order = true;
    const LinearPlan one = Plan({.layer = layer});
    for (; layer.rows <= kMaxFixedOrderRows; ++layer.rows) {
      const LinearPlan plan = Plan({.layer = layer});
      EXPECT_EQ(plan.kernel, one.kernel) << layer.rows;
      EXPECT_EQ(plan.tile.split_k, one.tile.split_k) << layer.rows;
    }
  }
}

TEST(LinearPlan, FusesNothingInAFixedOrder) {
  for (const int64_t rows : {1, 8, 32}) {
    LinearRequest request = Llama8B(Part::kGateUp, rows, DType::kBF16);
    request.layer.fixed_order = true;
    EXPECT_FALSE(Plan(request).norm);
    EXPECT_EQ(Plan(request).epilogue, LinearEpilogue::kNothing);
  }
}

TEST(LinearPlan, FallsBackToCublasAndTheReferenceKernel) {
  LinearLayer layer = Layer(8, 4096, {4096}, DType::kBF16);
  layer.x.aligned = false;
  EXPECT_EQ(Plan({.layer = layer}).kernel, LinearKernel::kCublas);
  EXPECT_EQ(Plan({.layer = Layer(8, 63, {4096}, DType::kBF16)}).kernel, LinearKernel::kReference);
  layer = Layer(512, 768, {3072}, DType::kBF16);
  layer.bias.present = true;
  const LinearPlan plan = Plan({.layer = layer, .epilogue = LinearEpilogue::kGeluTanh});
  EXPECT_TRUE(plan.bias);
  EXPECT_EQ(plan.epilogue, LinearEpilogue::kGeluTanh);
}

TEST(LinearPlan, RefusesInvalidLayers) {
  const auto code = [](const LinearLayer& layer) {
    return PlanLinear(Device("9.0"), {.layer = layer}).status().code();
  };
  EXPECT_EQ(code(Layer(0, 4096, {4096}, DType::kBF16)), StatusCode::kInvalidArgument);
  EXPECT_EQ(code(Layer(1, 0, {4096}, DType::kBF16)), StatusCode::kInvalidArgument);
  EXPECT_EQ(code(Layer(1, 4096, {}, DType::kBF16)), StatusCode::kInvalidArgument);
  EXPECT_EQ(code(Layer(1, 4096, {4096, -8}, DType::kBF16)), StatusCode::kInvalidArgument);
  EXPECT_EQ(code(Layer(int64_t{1} << 31, 4096, {4096}, DType::kBF16)), StatusCode::kInvalidArgument);
  EXPECT_EQ(code(Layer(1, 4096, {4096}, DType::kQ4_K)), StatusCode::kInvalidArgument);
  LinearLayer layer = Layer(1, 4096, {4096}, DType::kBF16);
  layer.dtype = DType::kF32;
  EXPECT_EQ(code(layer), StatusCode::kInvalidArgument);
  layer = Layer(1, 4096, {4096}, DType::kBF16);
  layer.x.dtype = DType::kF8E4M3;
  EXPECT_EQ(code(layer), StatusCode::kInvalidArgument);
  EXPECT_FALSE(TypicalDevice("7.5").ok());
}

TEST(LinearPlan, ReadsTheRecordOfTheGpu) {
  EXPECT_EQ(TuningOf("NVIDIA H100 80GB HBM3").gpu, "NVIDIA H100");
  EXPECT_EQ(TuningOf("NVIDIA H200").gpu, "NVIDIA H200");
  EXPECT_EQ(TuningOf("NVIDIA A100-SXM4-80GB").gpu, "NVIDIA H200") << "the fallback";
  LinearTuning tuning = TuningOf("NVIDIA H200");
  tuning.fp8_rows = 33;
  DeviceTraits device = Device("9.0");
  device.tuning = &tuning;
  LinearRequest request{.layer = Layer(32, 4096, {4096}, DType::kF8E4M3)};
  EXPECT_EQ(PlanLinear(device, request)->kernel, LinearKernel::kW8A16Gemm);
  request.layer.rows = 33;
  EXPECT_EQ(PlanLinear(device, request)->kernel, LinearKernel::kQuantizeRows);
}

TEST(LinearPlan, DividesDequantizedWeightsIntoPanels) {
  const DeviceTraits device = Device("9.0");
  const LinearLayer layer = Layer(2048, 4096, {28672}, DType::kBlockQuant4);
  const int64_t outputs = DequantizedPanelOutputs(device, layer, int64_t{1} << 20);
  EXPECT_EQ(outputs % 128, 0);
  EXPECT_LE(outputs * 4096 * 2, int64_t{40} << 20);
  EXPECT_EQ(DequantizedPanelOutputs(device, layer, 100), 100);
}

}  // namespace
}  // namespace ringside::cuda
