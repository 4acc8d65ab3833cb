// Tiny models with weights in the formats of AWQ, GPTQ, gpt-oss and compressed-tensors
// (tests/golden/make_packed_golden.py).
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>

#include "engine/files/safetensors_reader.h"
#include "engine/model/weights/model_files.h"
#include "kernels/formats/file_formats.h"
#include "tests/engine/files/safetensors_file_writer.h"
#include "tests/engine/model/model_run.h"
#include "tests/kernels/devices.h"

namespace ringside {
namespace {

std::string PackedFolder(const std::string& name) { return GoldenFolder("packed/" + name); }

std::vector<float> LogitsOf(Model& model) {
  OwnCache cache(model, {0, 64, Eviction::kToken}, 16);
  return RunAll(model, cache.get(), GoldenIds(), 16);
}

class PackedModel : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(All, PackedModel,
                         ::testing::Values("awq", "awq_symmetric", "gptq", "gptq_act_order", "ct_int4", "ct_int4_zeros",
                                           "ct_int8", "ct_fp8_block", "ct_nvfp4", "ct_mxfp4"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(PackedModel, WeightsEqualTheReferenceBitForBit) {
  const auto files = OpenModelFiles(PackedFolder(GetParam()));
  ASSERT_TRUE(files.ok()) << files.status().ToString();
  const auto found = std::ranges::find_if(
      files->tensors, [](const FileTensor& tensor) { return tensor.name == "model.layers.0.self_attn.k_proj.weight"; });
  ASSERT_NE(found, files->tensors.end());
  std::vector<std::byte> blocks;
  const FileTensor tensor = Whole(*found, &blocks);
  const std::map<std::string_view, DType> types = {{"ct_int8", DType::kScaledI8},
                                                   {"ct_fp8_block", DType::kScaledE4M3},
                                                   {"ct_nvfp4", DType::kScaledNVFP4},
                                                   {"ct_mxfp4", DType::kMXFP4}};
  EXPECT_EQ(tensor.data.dtype, types.contains(GetParam()) ? types.at(GetParam()) : DType::kQ4_Z);
  EXPECT_EQ(tensor.data.order.empty(), std::string_view(GetParam()) != "gptq_act_order");
  std::vector<float> values(static_cast<size_t>(tensor.data.rows * tensor.data.cols));
  for (int64_t r = 0; r < tensor.data.rows; ++r) ReadFileRow(tensor.data, r, values.data() + r * tensor.data.cols);
  EXPECT_EQ(values, ReadFloats(PackedFolder(GetParam()) + "/k_proj.f32"));
}

// Every matrix, in float arithmetic.
TEST_P(PackedModel, UnpackedModelEqualsTheReference) {
  const auto files = OpenModelFiles(PackedFolder(GetParam()));
  ASSERT_TRUE(files.ok()) << files.status().ToString();
  SafeTensorsFileWriter writer;
  std::vector<std::byte> blocks;
  for (const FileTensor& part : files->tensors) {
    const FileTensor tensor = Whole(part, &blocks);
    std::vector<float> values(static_cast<size_t>(tensor.data.rows * tensor.data.cols));
    for (int64_t r = 0; r < tensor.data.rows; ++r) ReadFileRow(tensor.data, r, values.data() + r * tensor.data.cols);
    writer.Add(tensor.name, tensor.shape, values);
  }
  std::ifstream file(PackedFolder(GetParam()) + "/config.json");
  std::string config((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  config.replace(config.find("quantization_config"), std::strlen("quantization"), "former");
  const std::string folder = ::testing::TempDir() + "packed_model_" + GetParam() + std::to_string(::getpid());
  std::filesystem::create_directories(folder);
  std::ofstream(folder + "/config.json") << config;
  writer.Write(folder + "/model.safetensors");
  const auto backend = MakeTestBackend();
  const auto model = Model::Load(folder, *backend);
  std::filesystem::remove_all(folder);
  ASSERT_TRUE(model.ok()) << model.status().ToString();
  EXPECT_LT(RelativeError(LogitsOf(**model), ReadFloats(PackedFolder(GetParam()) + "/logits.f32")), 1e-4);
}

// The difference is the rounding of activations to int8.
TEST_P(PackedModel, LogitsEqualTheReference) {
  const auto backend = MakeTestBackend();
  auto model = Model::Load(PackedFolder(GetParam()), *backend);
  ASSERT_TRUE(model.ok()) << model.status().ToString();
  EXPECT_LT(NormError(LogitsOf(**model), ReadFloats(PackedFolder(GetParam()) + "/logits.f32")), 0.05);
}

// Sorted by groups, a rank's inputs are at other offsets.
TEST_P(PackedModel, ShardsAcrossRanksOrIsRefused) {
  const auto ranks = testing::MakeTestRanks("cpu", {.tensor = 2});
  const std::vector<Backend*> backends = {ranks[0].get(), ranks[1].get()};
  const auto shared = Model::Load(PackedFolder(GetParam()), backends);
  if (std::string_view(GetParam()) == "gptq_act_order") {
    EXPECT_EQ(shared.status().code(), StatusCode::kInvalidArgument);
    EXPECT_NE(shared.status().message().find("has act-order inputs (desc_act)"), std::string::npos)
        << shared.status().ToString();
    return;
  }
  ASSERT_TRUE(shared.ok()) << shared.status().ToString();
  const auto backend = MakeTestBackend();
  const auto alone = Model::Load(PackedFolder(GetParam()), *backend);
  EXPECT_LT(RelativeError(LogitsOf(**shared), LogitsOf(**alone)),
            0.01);  // where a sum's last bit changes an int8 by one
}

TEST(PackedBiases, ZeroBiasesUnknownToTheNetworkAreDropped) {
  const std::string folder = ::testing::TempDir() + "packed_biases_" + std::to_string(::getpid());
  std::filesystem::create_directories(folder);
  std::filesystem::copy_file(PackedFolder("gptq/config.json"), folder + "/config.json");
  const SafeTensors file = SafeTensors::OpenFolder(PackedFolder("gptq")).value();
  const auto backend = MakeTestBackend();
  for (const uint8_t byte : {0, 1}) {
    SafeTensorsFileWriter writer;
    for (const OtherTensor& tensor : file.others()) writer.Add(tensor.name, tensor.type, tensor.shape, tensor.bytes);
    for (const FileTensor& tensor : file.tensors()) writer.Add(tensor.name, "F16", tensor.shape, tensor.data.bytes);
    const std::vector<std::byte> bias(256, std::byte{byte});
    writer.Add("model.layers.0.mlp.down_proj.bias", "F16", std::vector<int64_t>{128}, bias);
    writer.Write(folder + "/model.safetensors");
    const auto model = Model::Load(folder, *backend);
    EXPECT_EQ(model.ok(), byte == 0) << model.status().ToString();
    if (!model.ok()) {
      EXPECT_NE(model.status().message().find("'model.layers.0.mlp.down_proj.bias' is unknown"), std::string::npos);
    }
  }
  std::filesystem::remove_all(folder);
}

TEST(PackedExperts, LogitsEqualTheReferenceForEverySource) {
  const auto backend = MakeTestBackend();
  const std::vector<float> want = ReadFloats(PackedFolder("gpt_oss_mxfp4/logits.f32"));
  std::vector<std::vector<float>> logits;
  for (const char* path : {"gpt_oss_mxfp4", "gpt_oss_mxfp4/model.gguf"}) {
    auto model = Model::Load(PackedFolder(path), *backend);
    ASSERT_TRUE(model.ok()) << model.status().ToString();
    logits.push_back(LogitsOf(**model));
    EXPECT_LT(RelativeError(logits.back(), want), 0.05) << path;
  }
  EXPECT_EQ(logits[0], logits[1]);
}

// Their memory size: 4.25 bits per expert weight.
TEST(PackedExperts, StayPacked) {
  const auto backend = MakeTestBackend();
  const auto packed = Model::Load(PackedFolder("gpt_oss_mxfp4"), *backend),
             half = Model::Load(GoldenFolder("families/gpt_oss"), *backend);
  ASSERT_TRUE(packed.ok() && half.ok());
  const int64_t weights = int64_t{2} * 4 * 3 * 32 * 32;  // layers, experts, matrices
  EXPECT_EQ((*half)->weight_bytes() - (*packed)->weight_bytes(), weights * 2 - weights * 17 / 32);
}

}  // namespace
}  // namespace ringside
