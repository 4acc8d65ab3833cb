// A tiny model whose matrices are stored in E4M3, with a scale per output, matrix or block, in the formats of different
// quantizers. It must compute the same as a model whose file has the dequantized values.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>

#include "engine/files/packed_tensors.h"
#include "engine/files/safetensors_reader.h"
#include "kernels/formats/file_formats.h"
#include "kernels/formats/half.h"
#include "kernels/formats/row_quantization.h"
#include "tests/engine/files/safetensors_file_writer.h"
#include "tests/engine/model/model_run.h"
#include "tests/kernels/devices.h"

namespace ringside {
namespace {

struct Writing {
  std::string name, config;
  bool whole;                            // one scale per matrix
  std::vector<int64_t> scale_shape;      // for one scale per matrix
  std::vector<std::string> beside = {};  // input scales
  ScaleBlock block = {};                 // set: scales per block, under another name
};
const Writing kWritings[] = {
    {"channels",
     R"("quant_method": "compressed-tensors", "format": "float-quantized", "ignore": ["lm_head"], "config_groups":
        {"group_0": {"targets": ["Linear"], "weights": {"num_bits": 8, "type": "float", "strategy": "channel"},
                     "input_activations": {"num_bits": 8, "strategy": "token", "dynamic": true}}})",
     false,
     {}},
    {"tensors", R"("quant_method": "fp8", "activation_scheme": "static")", true, {}, {".input_scale"}},
    {"tensors_of_one", R"("quant_method": "compressed-tensors", "format": "float-quantized")", true, {1}},
    {"fbgemm", R"("quant_method": "fbgemm_fp8", "activation_scale_ub": 1200.0)", false, {}, {".input_scale_ub"}},
    {"blocks_of_128",
     R"("quant_method": "fp8", "activation_scheme": "dynamic", "weight_block_size": [128, 128], "fmt": "e4m3",
        "modules_to_not_convert": ["lm_head", "model.layers.0.input_layernorm"])",
     false,
     {},
     {},
     {128, 128}},
    {"small_blocks", R"("quant_method": "fp8", "weight_block_size": [24, 32])", false, {}, {}, {24, 32}}};

std::vector<float> LogitsOf(Model& model, DType cache_type, int64_t chunk) {
  OwnCache cache(model, {0, 64, Eviction::kToken}, chunk, cache_type);
  return RunAll(model, cache.get(), GoldenIds(), chunk);
}

class E4M3Model : public ::testing::TestWithParam<Writing> {
 protected:
  E4M3Model() {
    for (const std::string& folder : {Folder(), PlainFolder()}) std::filesystem::create_directories(folder);
    std::ifstream file(GoldenFolder("llama/config.json"));
    std::string config((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    std::ofstream(PlainFolder() + "/config.json") << config;
    config.insert(config.find('{') + 1, "\"quantization_config\": {" + GetParam().config + "},");
    std::ofstream(Folder() + "/config.json") << config;
    const SafeTensors golden = SafeTensors::OpenFolder(GoldenFolder("llama")).value();
    for (const FileTensor& tensor : golden.tensors()) Write(tensor);
    packed_.Write(Folder() + "/model.safetensors");
    plain_.Write(PlainFolder() + "/model.safetensors");
  }
  ~E4M3Model() override { std::filesystem::remove_all(base_); }

  std::string Folder() const { return base_ + "/packed"; }
  std::string PlainFolder() const { return base_ + "/plain"; }

 private:
  void Write(const FileTensor& tensor) {
    const HostTensor& data = tensor.data;
    const auto count = static_cast<size_t>(data.rows * data.cols), cols = static_cast<size_t>(data.cols);
    std::vector<float> values(count);
    for (int64_t r = 0; r < data.rows; ++r) ReadFileRow(data, r, values.data() + r * data.cols);
    if (!tensor.name.ends_with("_proj.weight")) {
      for (SafeTensorsFileWriter* file : {&packed_, &plain_}) file->Add(tensor.name, tensor.shape, values);
      return;
    }
    const ScaleBlock whole{data.rows, data.cols}, row{1, data.cols};
    const bool blocks = GetParam().block.inputs > 0;
    const ScaleBlock block = blocks ? GetParam().block : GetParam().whole ? whole : row;
    const int64_t down = (data.rows + block.outputs - 1) / block.outputs,
                  across = (data.cols + block.inputs - 1) / block.inputs;
    std::vector<uint8_t> q(count);
    std::vector<float> scales(static_cast<size_t>(down * across));
    const auto scale_of = [&](size_t i) -> float& {
      const auto r = static_cast<int64_t>(i / cols), c = static_cast<int64_t>(i % cols);
      return scales[static_cast<size_t>(r / block.outputs * across + c / block.inputs)];
    };
    for (size_t i = 0; i < count; ++i) scale_of(i) = std::max(scale_of(i), std::fabs(values[i]) / kLargestE4M3);
    for (size_t i = 0; i < count; ++i) {
      q[i] = FloatToE4M3(values[i] / scale_of(i));
      values[i] = scale_of(i) * QuantizedValue(DType::kF8E4M3, q[i]);
    }
    const std::string module = tensor.name.substr(0, tensor.name.rfind('.'));
    packed_.Add(tensor.name, "F8_E4M3", tensor.shape, std::as_bytes(std::span(q)));
    const std::vector<int64_t> shape = GetParam().whole ? GetParam().scale_shape : std::vector<int64_t>{down, across};
    packed_.Add(module + (blocks ? ".weight_scale_inv" : ".weight_scale"), shape, scales);
    for (const std::string& name : GetParam().beside) {
      packed_.Add(module + name, std::vector<int64_t>{1}, std::vector<float>{0.01f});
    }
    plain_.Add(tensor.name, tensor.shape, values);
  }

  const std::string base_ = ::testing::TempDir() + "e4m3_model_" + std::to_string(::getpid());
  SafeTensorsFileWriter packed_, plain_;
};
INSTANTIATE_TEST_SUITE_P(All, E4M3Model, ::testing::ValuesIn(kWritings),
                         [](const auto& info) { return info.param.name; });

// The CPU multiplies by the dequantized values, in the same order.
TEST_P(E4M3Model, LogitsMatchDequantisedWeights) {
  const auto backend = MakeTestBackend();
  auto packed = Model::Load(Folder(), *backend), plain = Model::Load(PlainFolder(), *backend);
  ASSERT_TRUE(packed.ok()) << packed.status().ToString();
  ASSERT_TRUE(plain.ok()) << plain.status().ToString();
  EXPECT_EQ(LogitsOf(**packed, DType::kF32, 16), LogitsOf(**plain, DType::kF32, 16));
  EXPECT_LT((*packed)->weight_bytes(), (*plain)->weight_bytes());
}

TEST_P(E4M3Model, ShardsAcrossRanks) {
  const auto ranks = testing::MakeTestRanks("cpu", {.tensor = 2});
  const std::vector<Backend*> backends = {ranks[0].get(), ranks[1].get()};
  const auto backend = MakeTestBackend();
  auto shared = Model::Load(Folder(), backends), alone = Model::Load(Folder(), *backend);
  ASSERT_TRUE(shared.ok()) << shared.status().ToString();
  EXPECT_LT(RelativeError(LogitsOf(**shared, DType::kF32, 16), LogitsOf(**alone, DType::kF32, 16)), 1e-5);
}

// A GPU keeps the bytes. From 17 rows on the device may round activations to E4M3, too: by at most a sixteenth.
TEST_P(E4M3Model, KeepsItsSizeOnAGpu) {
  const auto cpu = MakeTestBackend();
  const std::vector<float> want = LogitsOf(**Model::Load(PlainFolder(), *cpu), DType::kF32, 16);
  for (const char* type : {"cuda_bf16", "cuda_f16"}) {
    const auto device = testing::MakeDevice(type), unpacking = testing::MakeDevice(std::string(type) + "_unpacked");
    if (device == nullptr || unpacking == nullptr) GTEST_SKIP() << "no " << type << " here";
    auto kept = Model::Load(Folder(), *device), unpacked = Model::Load(Folder(), *unpacking);
    ASSERT_TRUE(kept.ok()) << kept.status().ToString();
    ASSERT_TRUE(unpacked.ok()) << unpacked.status().ToString();
    if (GetParam().block.inputs % 128 == 0) {  // several scales for 128 inputs become 16 bits
      EXPECT_LT((*kept)->weight_bytes(), (*unpacked)->weight_bytes());
      EXPECT_NE((*kept)->fingerprint(), (*unpacked)->fingerprint());
    }
    const DType sixteen = device->activation_dtype();
    EXPECT_LT(NormError(LogitsOf(**kept, sixteen, 16), want), 0.03);
    EXPECT_LT(NormError(LogitsOf(**unpacked, sixteen, 16), want), 0.03);
    EXPECT_LT(NormError(LogitsOf(**kept, sixteen, 40), want), 0.15);
  }
}

TEST(E4M3Weights, NonFiniteWeightsAreRefused) {
  for (const std::string name : {"cpu", "cuda_bf16"}) {
    const auto device = testing::MakeDevice(name);
    if (device == nullptr) continue;
    std::vector<std::byte> blocks(4 * 36, std::byte{0x30});
    const HostTensor host{DType::kScaledE4M3, 4, 32, blocks};
    EXPECT_TRUE(device->LoadWeight(host).ok());
    for (const int nan : {0x7f, 0xff}) {
      blocks[100] = static_cast<std::byte>(nan);
      EXPECT_EQ(device->LoadWeight(host).status().code(), StatusCode::kCorruption) << name;
    }
  }
}

}  // namespace
}  // namespace ringside
