#include "tests/engine/model/adapters/made_adapter.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <regex>

#include "base/check.h"
#include "engine/files/safetensors_reader.h"
#include "engine/model/weights/file_values.h"
#include "tests/engine/files/gguf_file_writer.h"
#include "tests/engine/files/safetensors_file_writer.h"
#include "tests/golden_folder.h"

namespace ringside {
namespace {

std::string MakeFolder() {
  std::string folder = std::filesystem::temp_directory_path() / "made_adapter_XXXXXX";
  CHECK(mkdtemp(folder.data()) != nullptr);
  return folder;
}

bool Names(const std::string& name, const std::string& module) {
  return module == name || module.ends_with("." + name);
}

template <class T>
T ByPattern(const std::map<std::string, T>& pattern, const std::string& module, T otherwise) {
  for (const auto& [name, value] : pattern) {
    if (Names(name, module)) return value;
  }
  return otherwise;
}

/// Between -1 and 1, equal on every machine.
class Noise {
 public:
  explicit Noise(uint32_t seed) : state_(seed * 2654435761u + 1) {}
  std::vector<float> Values(int64_t count, float scale) {
    std::vector<float> out;
    for (int64_t i = 0; i < count; ++i) {
      state_ = state_ * 1664525u + 1013904223u;
      out.push_back(scale * (static_cast<float>(state_ >> 8) / static_cast<float>(1 << 23) - 1));
    }
    return out;
  }

 private:
  uint32_t state_;
};

/// W += s B A, where the file has W as [outputs, inputs] or, transposed, [inputs, outputs].
void Merge(const MadeAdapter::Matrix& matrix, double s, bool transposed, std::vector<float>* weight) {
  for (int64_t o = 0; o < matrix.outputs; ++o) {
    for (int64_t i = 0; i < matrix.inputs; ++i) {
      double sum = 0;
      for (int64_t r = 0; r < matrix.rank; ++r) {
        sum += static_cast<double>(matrix.b[static_cast<size_t>(o * matrix.rank + r)]) *
               static_cast<double>(matrix.a[static_cast<size_t>(r * matrix.inputs + i)]);
      }
      float& value = (*weight)[static_cast<size_t>(transposed ? i * matrix.outputs + o : o * matrix.inputs + i)];
      value = static_cast<float>(static_cast<double>(value) + s * sum);
    }
  }
}

template <class T>
std::string Json(const std::map<std::string, T>& pattern) {
  std::vector<std::string> members;
  for (const auto& [name, value] : pattern) members.push_back(fmt::format(R"("{}": {})", name, value));
  return fmt::format("{{{}}}", fmt::join(members, ", "));
}

}  // namespace

MadeAdapter::MadeAdapter(const std::string& name, const AdapterTraits& traits)
    : adapter_(MakeFolder()), merged_(MakeFolder()), alpha_(traits.alpha) {
  const bool transposed = name.find("gpt2") != std::string::npos;
  auto model = SafeTensors::OpenFolder(GoldenFolder(name));
  CHECK(model.ok());
  std::filesystem::copy_file(GoldenFolder(name) + "/config.json", merged_ + "/config.json");
  const std::regex of_layer(R"re((.*\.(?:layers|h|blocks)\.\d+\..*)\.weight)re");
  SafeTensorsFileWriter writer;
  Noise noise(traits.seed);
  for (const FileTensor& tensor : model->tensors()) {
    std::vector<float> values = ToFloats(tensor.name, tensor.data).value();
    std::smatch module;
    const bool matrix = tensor.shape.size() == 2 && std::regex_match(tensor.name, module, of_layer);
    const auto named = [&](const std::string& end) { return Names(end, module[1].str()); };
    if (matrix && (traits.only.empty() || std::ranges::any_of(traits.only, named))) {
      Matrix made{.module = module[1].str(),
                  .rank = ByPattern(traits.ranks, module[1].str(), traits.rank),
                  .inputs = tensor.shape[1],
                  .outputs = tensor.shape[0],
                  .a = {},
                  .b = {}};
      if (transposed) std::swap(made.inputs, made.outputs);
      made.a = noise.Values(made.rank * made.inputs, 0.2f);
      made.b = noise.Values(made.outputs * made.rank, 0.2f);
      const auto rank = static_cast<double>(made.rank);
      const double alpha = ByPattern(traits.alphas, made.module, traits.alpha);
      Merge(made, alpha / (traits.by_root ? std::sqrt(rank) : rank), transposed, &values);
      matrices_.push_back(std::move(made));
    }
    writer.Add(tensor.name, tensor.shape, values);
  }
  writer.Write(merged_ + "/model.safetensors");
  CHECK(!matrices_.empty());
  WritePeft(traits);
}

void MadeAdapter::WritePeft(const AdapterTraits& traits) const {
  SafeTensorsFileWriter writer;
  std::vector<std::string> targets;
  for (const Matrix& matrix : matrices_) {
    const std::string prefix = "base_model.model." + matrix.module;
    writer.Add(prefix + ".lora_A.weight", std::vector<int64_t>{matrix.rank, matrix.inputs}, matrix.a);
    writer.Add(prefix + ".lora_B.weight", std::vector<int64_t>{matrix.outputs, matrix.rank}, matrix.b);
    targets.push_back('"' + matrix.module.substr(matrix.module.rfind('.') + 1) + '"');
  }
  writer.Write(adapter_ + "/adapter_model.safetensors");
  std::ofstream(adapter_ + "/adapter_config.json") << fmt::format(
      R"({{"peft_type": "LORA", "r": {}, "lora_alpha": {}, "use_rslora": {}, "rank_pattern": {}, "alpha_pattern": {},
          "target_modules": [{}], "bias": "none", "modules_to_save": null, "use_dora": false}})",
      traits.rank, traits.alpha, traits.by_root, Json(traits.ranks), Json(traits.alphas), fmt::join(targets, ", "));
}

std::string MadeAdapter::AsGguf(int64_t heads, int64_t kv_heads) const {
  const std::map<std::string, std::string> names = {{"self_attn.q_proj", "attn_q"}, {"self_attn.k_proj", "attn_k"},
                                                    {"self_attn.v_proj", "attn_v"}, {"self_attn.o_proj", "attn_output"},
                                                    {"mlp.gate_proj", "ffn_gate"},  {"mlp.up_proj", "ffn_up"},
                                                    {"mlp.down_proj", "ffn_down"}};
  GgufFileWriter writer;
  writer.String("general.type", "adapter").String("general.architecture", "llama").String("adapter.type", "lora");
  writer.F32("adapter.lora.alpha", static_cast<float>(alpha_));
  const auto add = [&](const std::string& name, int64_t inner, int64_t outer, const std::vector<float>& values) {
    writer.Tensor(name, {static_cast<uint64_t>(inner), static_cast<uint64_t>(outer)}, 0,
                  std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)));
  };
  for (const Matrix& matrix : matrices_) {
    const std::regex module(R"re(model\.layers\.(\d+)\.(.*))re");
    std::smatch parts;
    CHECK(std::regex_match(matrix.module, parts, module));
    const std::string kind = parts[2].str(), name = fmt::format("blk.{}.{}.weight", parts[1].str(), names.at(kind));
    std::vector<float> b = matrix.b;
    const int64_t of = kind == "self_attn.q_proj" ? heads : kind == "self_attn.k_proj" ? kv_heads : 0;
    const int64_t half = of > 0 ? matrix.outputs / of / 2 : 0;
    for (int64_t row = 0; row < 2 * half * of; ++row) {  // halves of a head become pairs
      const int64_t head = row / (2 * half), at = row % (2 * half);
      const int64_t to = 2 * half * head + 2 * (at % half) + at / half;
      std::copy_n(matrix.b.begin() + row * matrix.rank, matrix.rank, b.begin() + to * matrix.rank);
    }
    add(name + ".lora_a", matrix.inputs, matrix.rank, matrix.a);
    add(name + ".lora_b", matrix.rank, matrix.outputs, b);
  }
  const std::string path = adapter_ + "/adapter.gguf";
  std::ofstream(path, std::ios::binary | std::ios::trunc) << writer.Finish();
  return path;
}

MadeAdapter::~MadeAdapter() {
  std::filesystem::remove_all(adapter_);
  std::filesystem::remove_all(merged_);
}

}  // namespace ringside
