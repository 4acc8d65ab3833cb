// A tiny model whose matrices are stored in each format of compressed-tensors, and in ModelOpt's NVFP4: the values of
// every weight, and the logits, of a model whose file has the dequantized values.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <numeric>

#include "engine/model/weights/model_files.h"
#include "kernels/formats/file_formats.h"
#include "kernels/formats/half.h"
#include "kernels/formats/row_quantization.h"
#include "tests/engine/files/safetensors_file_writer.h"
#include "tests/engine/model/model_run.h"
#include "tests/kernels/devices.h"

namespace ringside::compressed_model {
namespace {

constexpr int64_t kCols = 128;  // inputs of every matrix

/// The parts of one matrix, of a module whose values are [rows, kCols].
struct Matrix {
  std::string module;
  int64_t rows;
  std::vector<float> values;  // becomes the dequantized ones
  SafeTensorsFileWriter* file;

  template <class T>
  void Add(const std::string& part, const std::string& type, const std::vector<int64_t>& shape,
           const std::vector<T>& data) const {
    file->Add(module + part, type, shape, std::as_bytes(std::span(data)));
  }
  size_t count() const { return values.size(); }
  int64_t RowOf(size_t i) const { return static_cast<int64_t>(i) / kCols; }
  int64_t ColOf(size_t i) const { return static_cast<int64_t>(i) % kCols; }
};

/// Scales of blocks of [outputs, inputs]: the largest magnitude divided by `largest`, as stored in `type`.
struct Scales {
  int64_t outputs, inputs;
  std::vector<int64_t> shape;
  std::vector<float> values;

  Scales(const Matrix& m, int64_t of_outputs, int64_t of_inputs, float largest, const std::string& type)
      : outputs(of_outputs), inputs(of_inputs) {
    shape = {(m.rows + outputs - 1) / outputs, (kCols + inputs - 1) / inputs};
    values.assign(static_cast<size_t>(shape[0] * shape[1]), 0.0f);
    for (size_t i = 0; i < m.count(); ++i) at(m, i) = std::max(at(m, i), std::fabs(m.values[i]) / largest);
    for (float& value : values) {
      if (type == "F16") value = HalfToFloat(FloatToHalf(value));
      if (type == "BF16") value = Bf16ToFloat(FloatToBf16(value));
    }
    std::vector<uint16_t> bits;
    for (const float value : values) bits.push_back(type == "F16" ? FloatToHalf(value) : FloatToBf16(value));
    if (type == "F32") {
      m.Add(".weight_scale", type, shape, values);
    } else {
      m.Add(".weight_scale", type, shape, bits);
    }
  }
  float& at(const Matrix& m, size_t i) {
    return values[static_cast<size_t>(m.RowOf(i) / outputs * shape[1] + m.ColOf(i) / inputs)];
  }
};

int Round(float x, int least, int most) { return std::clamp(static_cast<int>(std::lround(x)), least, most); }

/// Words of `bits` bits per number, along rows.
std::vector<int32_t> Words(const std::vector<int>& numbers, int bits) {
  std::vector<int32_t> words(numbers.size() * static_cast<size_t>(bits) / 32);
  const size_t per_word = 32 / static_cast<size_t>(bits);
  for (size_t i = 0; i < numbers.size(); ++i) {
    words[i / per_word] |=
        static_cast<int32_t>(static_cast<uint32_t>(numbers[i]) << (static_cast<size_t>(bits) * (i % per_word)));
  }
  return words;
}

void AddPackedWords(const Matrix& m, const std::vector<int>& numbers, int bits) {
  m.Add(".weight_packed", "I32", {m.rows, kCols * bits / 32}, Words(numbers, bits));
  m.Add(".weight_shape", "I64", {2}, std::vector<int64_t>{m.rows, kCols});
}

void Int4(Matrix* m, int64_t group, const std::string& type) {
  Scales scales(*m, 1, group, 7, type);
  std::vector<int> numbers;
  for (size_t i = 0; i < m->count(); ++i) {
    const float scale = scales.at(*m, i);
    numbers.push_back(8 + Round(m->values[i] / scale, -8, 7));
    m->values[i] = scale * static_cast<float>(numbers.back() - 8);
  }
  AddPackedWords(*m, numbers, 4);
}

void Int4WithZeros(Matrix* m) {
  constexpr int64_t kGroup = 64, kGroups = kCols / kGroup;
  Scales scales(*m, 1, kGroup, 7, "BF16");
  std::vector<int> numbers, zeros(static_cast<size_t>(kGroups * m->rows));
  const auto zero = [&](int64_t row, int64_t group) { return static_cast<int>((5 * row + 3 * group) % 16); };
  for (size_t i = 0; i < m->count(); ++i) {
    const float scale = scales.at(*m, i);
    const int of = zero(m->RowOf(i), m->ColOf(i) / kGroup);
    numbers.push_back(Round(m->values[i] / scale + static_cast<float>(of), 0, 15));
    m->values[i] = scale * static_cast<float>(numbers.back() - of);
  }
  AddPackedWords(*m, numbers, 4);
  // Packed along the outputs.
  for (int64_t group = 0; group < kGroups; ++group) {
    for (int64_t row = 0; row < m->rows; ++row) zeros[static_cast<size_t>(group * m->rows + row)] = zero(row, group);
  }
  const std::vector<int32_t> across = Words(zeros, 4);
  std::vector<int32_t> words(across.size());
  for (int64_t group = 0; group < kGroups; ++group) {
    for (int64_t r = 0; r < m->rows / 8; ++r) {
      words[static_cast<size_t>(r * kGroups + group)] = across[static_cast<size_t>(group * m->rows / 8 + r)];
    }
  }
  m->Add(".weight_zero_point", "I32", {m->rows / 8, kGroups}, words);
}

void Int4InActOrder(Matrix* m) {
  constexpr int32_t kGroup = 32, kGroups = kCols / kGroup;
  std::vector<int32_t> group_of(kCols);
  for (int32_t c = 0; c < kCols; ++c) group_of[static_cast<size_t>(c)] = (c * 5 + 3) % kGroups;
  std::vector<uint16_t> halves;
  std::vector<float> scales;
  for (int64_t i = 0; i < m->rows * kGroups; ++i) {
    halves.push_back(FloatToHalf(0.01f + 0.001f * static_cast<float>(i % 7)));
    scales.push_back(HalfToFloat(halves.back()));
  }
  std::vector<int> numbers;
  for (size_t i = 0; i < m->count(); ++i) {
    const int32_t group = group_of[static_cast<size_t>(m->ColOf(i))];
    const float scale = scales[static_cast<size_t>(m->RowOf(i) * kGroups + group)];
    numbers.push_back(8 + Round(m->values[i] / scale, -8, 7));
    m->values[i] = scale * static_cast<float>(numbers.back() - 8);
  }
  m->Add(".weight_scale", "F16", {m->rows, kGroups}, halves);
  m->Add(".weight_g_idx", "I32", {kCols}, group_of);
  AddPackedWords(*m, numbers, 4);
}

void Int8(Matrix* m, bool packed, int64_t group, const std::string& type) {
  Scales scales(*m, 1, group, 127, type);
  std::vector<int> numbers;
  std::vector<int8_t> bytes;
  for (size_t i = 0; i < m->count(); ++i) {
    const float scale = scales.at(*m, i);
    bytes.push_back(static_cast<int8_t>(Round(m->values[i] / scale, -128, 127)));
    numbers.push_back(bytes.back() + 128);
    m->values[i] = scale * static_cast<float>(bytes.back());
  }
  if (packed) return AddPackedWords(*m, numbers, 8);
  m->Add(".weight", "I8", {m->rows, kCols}, bytes);
}

void E4M3(Matrix* m, int64_t outputs, int64_t inputs, const std::string& type) {
  Scales scales(*m, outputs == 0 ? m->rows : outputs, inputs == 0 ? kCols : inputs, 448, type);
  std::vector<uint8_t> bytes;
  for (size_t i = 0; i < m->count(); ++i) {
    const float scale = scales.at(*m, i);
    bytes.push_back(FloatToE4M3(m->values[i] / scale));
    m->values[i] = scale * E4M3ToFloat(bytes.back());
  }
  m->Add(".weight", "F8_E4M3", {m->rows, kCols}, bytes);
}

float E2M1(int code) {
  constexpr float kMagnitudes[] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
  return code < 8 ? kMagnitudes[code] : -kMagnitudes[code - 8];
}
int NearestE2M1(float x) {
  int best = 0;
  for (int code = 1; code < 16; ++code) {
    if (std::fabs(E2M1(code) - x) < std::fabs(E2M1(best) - x)) best = code;
  }
  return best;
}
std::vector<uint8_t> Pairs(const std::vector<int>& codes) {
  std::vector<uint8_t> bytes;
  for (size_t i = 0; i < codes.size(); i += 2) bytes.push_back(static_cast<uint8_t>(codes[i] | codes[i + 1] << 4));
  return bytes;
}

void Nvfp4(Matrix* m, bool modelopt) {
  constexpr float kFactor = 0x1p-9f;  // exact as its inverse too
  const size_t groups = m->count() / 16;
  std::vector<uint8_t> scales(groups);
  std::vector<int> codes;
  for (size_t g = 0; g < groups; ++g) {
    float largest = 0;
    for (size_t i = 16 * g; i < 16 * g + 16; ++i) largest = std::max(largest, std::fabs(m->values[i]));
    scales[g] = FloatToE4M3(largest / 6 / kFactor);
    const float scale = kFactor * E4M3ToFloat(scales[g]);
    for (size_t i = 16 * g; i < 16 * g + 16; ++i) {
      codes.push_back(scale == 0 ? 0 : NearestE2M1(m->values[i] / scale));
      m->values[i] = scale * E2M1(codes.back());
    }
  }
  m->Add(modelopt ? ".weight" : ".weight_packed", "U8", {m->rows, kCols / 2}, Pairs(codes));
  m->Add(".weight_scale", "F8_E4M3", {m->rows, kCols / 16}, scales);
  if (modelopt) {
    m->Add(".weight_scale_2", "F32", {}, std::vector<float>{kFactor});
    m->Add(".input_scale", "F32", {}, std::vector<float>{0.5f});
  } else {
    m->Add(".weight_global_scale", "F32", {1}, std::vector<float>{1 / kFactor});
    m->Add(".input_global_scale", "F32", {1}, std::vector<float>{2});
  }
}

void Mxfp4(Matrix* m) {
  std::vector<uint8_t> exponents;
  std::vector<int> codes;
  for (size_t b = 0; b < m->count(); b += 32) {
    float largest = 0;
    for (size_t i = b; i < b + 32; ++i) largest = std::max(largest, std::fabs(m->values[i]));
    int exponent = 0;
    std::frexp(largest, &exponent);
    exponents.push_back(static_cast<uint8_t>(127 + exponent - 3));
    const float scale = std::ldexp(1.0f, exponent - 3);
    for (size_t i = b; i < b + 32; ++i) {
      codes.push_back(NearestE2M1(m->values[i] / scale));
      m->values[i] = scale * E2M1(codes.back());
    }
  }
  m->Add(".weight_packed", "U8", {m->rows, kCols / 2}, Pairs(codes));
  m->Add(".weight_scale", "U8", {m->rows, kCols / 32}, exponents);
}

std::string Group(const std::string& weights, const std::string& targets = R"("Linear")") {
  return R"({"targets": [)" + targets + R"(], "weights": {"dynamic": false, )" + weights + "}}";
}
std::string Config(const std::string& format, const std::string& groups) {
  return R"({"quant_method": "compressed-tensors", "format": ")" + format +
         R"(", "ignore": ["lm_head", "re:.*embed.*"], "quantization_status": "compressed", "config_groups": {)" +
         groups + "}}";
}
std::string OneGroup(const std::string& format, const std::string& weights) {
  return Config(format, R"("group_0": )" + Group(weights));
}

struct Writing {
  std::string name, config;
  std::function<void(Matrix*)> write;
  DType dtype;
  bool exact = false;  // activations are not rounded
};
const std::string kInt4 = R"("num_bits": 4, "type": "int", "symmetric": true, )",
                  kInt8 = R"("num_bits": 8, "type": "int", "symmetric": true, )",
                  kFloat8 = R"("num_bits": 8, "type": "float", "symmetric": true, )";
const Writing kWritings[] = {
    {"int4", OneGroup("pack-quantized", kInt4 + R"("strategy": "group", "group_size": 32)"),
     [](Matrix* m) { Int4(m, 32, "F16"); }, DType::kQ4_Z},
    {"int4_channels_float32", OneGroup("pack-quantized", kInt4 + R"("strategy": "channel")"),
     [](Matrix* m) { Int4(m, kCols, "F32"); }, DType::kScaledI8},
    {"int4_zeros",
     OneGroup("pack-quantized",
              R"("num_bits": 4, "type": "int", "symmetric": false, "strategy": "group", "group_size": 64)"),
     Int4WithZeros, DType::kQ4_Z},
    {"int4_act_order",
     OneGroup("pack-quantized", kInt4 + R"("strategy": "group", "group_size": 32, "actorder": "group")"),
     Int4InActOrder, DType::kQ4_Z},
    {"int8_packed", OneGroup("pack-quantized", kInt8 + R"("strategy": "group", "group_size": 128)"),
     [](Matrix* m) { Int8(m, true, 128, "BF16"); }, DType::kScaledI8},
    {"int8", OneGroup("int-quantized", kInt8 + R"("strategy": "channel")"),
     [](Matrix* m) { Int8(m, false, kCols, "F32"); }, DType::kScaledI8},
    {"int8_naive", OneGroup("naive-quantized", kInt8 + R"("strategy": "channel")"),
     [](Matrix* m) { Int8(m, false, kCols, "BF16"); }, DType::kScaledI8},
    {"fp8_blocks", OneGroup("float-quantized", kFloat8 + R"("strategy": "block", "block_structure": [48, 96])"),
     [](Matrix* m) { E4M3(m, 48, 96, "BF16"); }, DType::kScaledE4M3, true},
    {"fp8_groups", OneGroup("float-quantized", kFloat8 + R"("strategy": "group", "group_size": 32)"),
     [](Matrix* m) { E4M3(m, 1, 32, "F32"); }, DType::kScaledE4M3, true},
    {"fp8_tensor", OneGroup("naive-quantized", kFloat8 + R"("strategy": "tensor")"),
     [](Matrix* m) { E4M3(m, 0, 0, "F32"); }, DType::kScaledE4M3, true},
    {"nvfp4",
     OneGroup("nvfp4-pack-quantized",
              R"("num_bits": 4, "type": "float", "strategy": "tensor_group", "group_size": 16)"),
     [](Matrix* m) { Nvfp4(m, false); }, DType::kScaledNVFP4},
    {"nvfp4_modelopt", "", [](Matrix* m) { Nvfp4(m, true); }, DType::kScaledNVFP4},
    {"mxfp4",
     OneGroup("mxfp4-pack-quantized", R"("num_bits": 4, "type": "float", "strategy": "group", "group_size": 32)"),
     Mxfp4, DType::kMXFP4},
    {"mixed",
     R"({"quant_method": "compressed-tensors", "format": "mixed-precision", "config_groups": {"group_0": {"format":
        "float-quantized", "targets": ["re:.*self_attn\\.[qkv]_proj$", "model.layers.0.self_attn.o_proj"], "weights":
        {"num_bits": 8, "type": "float", "strategy": "channel"}}, "group_1": {"format": "pack-quantized", "targets":
        ["Linear"], "weights": {"num_bits": 4, "strategy": "group", "group_size": 32}}}})",
     [](Matrix* m) {
       if (m->module.find("self_attn") != std::string::npos) return E4M3(m, 1, 0, "F32");
       Int4(m, 32, "F16");
     },
     DType::kScaledE4M3}};

std::vector<float> LogitsOf(Model& model) {
  OwnCache cache(model, {0, 64, Eviction::kToken}, 16, DType::kF32);
  return RunAll(model, cache.get(), GoldenIds(), 16);
}

class CompressedModel : public ::testing::TestWithParam<Writing> {
 protected:
  CompressedModel() {
    for (const std::string& folder : {Folder(), PlainFolder()}) std::filesystem::create_directories(folder);
    std::ifstream file(GoldenFolder("packed/awq/config.json"));
    std::string config((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    config.replace(config.find("quantization_config"), std::strlen("quantization"), "former");
    std::ofstream(PlainFolder() + "/config.json") << config;
    if (!GetParam().config.empty()) {
      config.insert(config.find('{') + 1, "\"quantization_config\": " + GetParam().config + ",");
    } else {
      std::ofstream(Folder() + "/hf_quant_config.json")
          << R"({"producer": {"name": "modelopt"}, "quantization": {"quant_algo": "NVFP4", "group_size": 16,
                 "kv_cache_quant_algo": "FP8", "exclude_modules": ["lm_head"]}})";
    }
    std::ofstream(Folder() + "/config.json") << config;
    const ModelFiles files = OpenModelFiles(GoldenFolder("packed/awq")).value();
    for (const FileTensor& tensor : files.tensors) Write(tensor);
    packed_.Write(Folder() + "/model.safetensors");
    plain_.Write(PlainFolder() + "/model.safetensors");
  }
  ~CompressedModel() override { std::filesystem::remove_all(base_); }

  std::string Folder() const { return base_ + "/packed"; }
  std::string PlainFolder() const { return base_ + "/plain"; }

  std::map<std::string, std::vector<float>> values_;  // of matrices, by tensor

 private:
  void Write(const FileTensor& part) {
    std::vector<std::byte> blocks;
    const FileTensor tensor = Whole(part, &blocks);
    std::vector<float> values(static_cast<size_t>(tensor.data.rows * tensor.data.cols));
    for (int64_t r = 0; r < tensor.data.rows; ++r) ReadFileRow(tensor.data, r, values.data() + r * tensor.data.cols);
    if (!tensor.name.ends_with("_proj.weight")) {
      packed_.Add(tensor.name, tensor.shape, values);
    } else {
      Matrix matrix{tensor.name.substr(0, tensor.name.rfind('.')), tensor.data.rows, values, &packed_};
      GetParam().write(&matrix);
      values = values_[tensor.name] = matrix.values;
    }
    plain_.Add(tensor.name, tensor.shape, values);
  }

  const std::string base_ = ::testing::TempDir() + "compressed_model_" + std::to_string(::getpid());
  SafeTensorsFileWriter packed_, plain_;
};
INSTANTIATE_TEST_SUITE_P(All, CompressedModel, ::testing::ValuesIn(kWritings),
                         [](const auto& info) { return info.param.name; });

TEST_P(CompressedModel, WeightsEqualTheDequantisedOnes) {
  const auto files = OpenModelFiles(Folder());
  ASSERT_TRUE(files.ok()) << files.status().ToString();
  size_t matrices = 0;
  for (const FileTensor& part : files->tensors) {
    const auto found = values_.find(part.name);
    if (found == values_.end()) continue;
    ++matrices;
    std::vector<std::byte> blocks;
    const FileTensor tensor = Whole(part, &blocks);
    if (GetParam().name != "mixed") {
      EXPECT_EQ(tensor.data.dtype, GetParam().dtype) << part.name;
    }
    std::vector<float> values(static_cast<size_t>(tensor.data.rows * tensor.data.cols));
    for (int64_t r = 0; r < tensor.data.rows; ++r) ReadFileRow(tensor.data, r, values.data() + r * tensor.data.cols);
    EXPECT_EQ(values, found->second) << part.name;
  }
  EXPECT_EQ(matrices, values_.size());
}

// The difference is the rounding of activations to int8.
TEST_P(CompressedModel, LogitsMatchDequantisedWeights) {
  const auto backend = MakeTestBackend();
  const auto packed = Model::Load(Folder(), *backend), plain = Model::Load(PlainFolder(), *backend);
  ASSERT_TRUE(packed.ok()) << packed.status().ToString();
  ASSERT_TRUE(plain.ok()) << plain.status().ToString();
  EXPECT_LT((*packed)->weight_bytes(), (*plain)->weight_bytes());
  const std::vector<float> got = LogitsOf(**packed), want = LogitsOf(**plain);
  if (GetParam().exact) {
    EXPECT_EQ(got, want);
  }
  EXPECT_LT(NormError(got, want), 0.05);
}

TEST_P(CompressedModel, ShardsAcrossRanksOrIsRefused) {
  const auto ranks = testing::MakeTestRanks("cpu", {.tensor = 2});
  const std::vector<Backend*> backends = {ranks[0].get(), ranks[1].get()};
  const auto shared = Model::Load(Folder(), backends);
  if (GetParam().name == "int4_act_order") {
    EXPECT_EQ(shared.status().code(), StatusCode::kInvalidArgument);
    return;
  }
  ASSERT_TRUE(shared.ok()) << shared.status().ToString();
  const auto backend = MakeTestBackend();
  const auto alone = Model::Load(Folder(), *backend);
  EXPECT_LT(RelativeError(LogitsOf(**shared), LogitsOf(**alone)), 0.01);
}

}  // namespace
}  // namespace ringside::compressed_model
