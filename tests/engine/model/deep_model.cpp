#include "tests/engine/model/deep_model.h"

#include <fmt/format.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>
#include <vector>

#include "base/check.h"
#include "engine/files/safetensors_reader.h"
#include "tests/engine/files/safetensors_file_writer.h"
#include "tests/golden_folder.h"

namespace ringside {
namespace {

/// The values of a float32 tensor times `factor`.
std::vector<float> Scaled(const FileTensor& tensor, float factor) {
  CHECK(tensor.data.dtype == DType::kF32);
  std::vector<float> values(tensor.data.bytes.size() / sizeof(float));
  std::memcpy(values.data(), tensor.data.bytes.data(), tensor.data.bytes.size());
  for (float& value : values) value *= factor;
  return values;
}

}  // namespace

DeepModel::DeepModel(const std::string& name, int64_t layers) {
  std::string folder = std::filesystem::temp_directory_path() / "deep_model_XXXXXX";
  CHECK(mkdtemp(folder.data()) != nullptr);
  path_ = folder;
  std::stringstream config;
  config << std::ifstream(GoldenFolder(name) + "/config.json").rdbuf();
  const std::regex count(R"re("(num_hidden_layers|n_layer)": (\d+))re");
  std::smatch found;
  const std::string text = config.str();
  CHECK(std::regex_search(text, found, count));
  const int64_t own = std::stoll(found[2]);
  // config.json's "layer_types" no longer matches the number of layers and is removed.
  const std::string deep = std::regex_replace(text, count, fmt::format("\"$1\": {}", layers));
  std::ofstream(path_ + "/config.json") << std::regex_replace(deep, std::regex(R"re("layer_types": \[[^\]]*\],)re"),
                                                              "");

  auto tensors = SafeTensors::OpenFolder(GoldenFolder(name));
  CHECK(tensors.ok());
  const std::regex of_layer(R"re((.*(?:layers|h)\.)(\d+)(\..*))re");
  SafeTensorsFileWriter writer;
  for (const FileTensor& tensor : tensors->tensors()) {
    std::smatch parts;
    if (!std::regex_match(tensor.name, parts, of_layer)) {
      writer.Add(tensor.name, tensor.shape, Scaled(tensor, 1));
      continue;
    }
    for (int64_t layer = std::stoll(parts[2]); layer < layers; layer += own) {
      writer.Add(fmt::format("{}{}{}", parts[1].str(), layer, parts[3].str()), tensor.shape,
                 Scaled(tensor, 1 - 0.05f * static_cast<float>(layer)));
    }
  }
  writer.Write(path_ + "/model.safetensors");
}

DeepModel::~DeepModel() { std::filesystem::remove_all(path_); }

}  // namespace ringside
