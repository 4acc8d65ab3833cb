#include "engine/model/adapters/soft_prompt.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <optional>

#include "engine/files/flat_json.h"
#include "engine/files/safetensors_reader.h"
#include "engine/model/weights/digest.h"
#include "engine/model/weights/file_values.h"

namespace ringside {
namespace {

/// The size of the table according to PEFT's settings.
struct Settings {
  std::optional<int64_t> rows, columns;
};

Result<Settings> ReadSettings(const std::string& path) {
  ASSIGN_OR_RETURN(const FlatJson json, FlatJson::ReadFile(path));
  const std::string type = json.String("peft_type").value_or("");
  if (type != "PROMPT_TUNING" && type != "P_TUNING") {
    return InvalidArgument(
        fmt::format("adapter_config.json: peft_type is '{}'; a soft prompt has PROMPT_TUNING or P_TUNING", type));
  }
  if (json.Int("num_transformer_submodules").value_or(1) != 1) {
    return InvalidArgument(
        "adapter_config.json: num_transformer_submodules must be 1; prompts with an encoder are not supported");
  }
  return Settings{json.Int("num_virtual_tokens"), json.Int("token_dim")};
}

Result<SoftPrompt> ReadTable(const FileTensor& tensor) {
  if (tensor.shape.size() != 2) return Corruption(fmt::format("tensor '{}' is not a matrix", tensor.name));
  SoftPrompt out{.rows = tensor.shape[0], .columns = tensor.shape[1], .values = {}};
  if (out.rows < 1 || out.rows > kMaxVirtualTokens) {
    return Corruption(
        fmt::format("tensor '{}' has {} rows; they must be 1 to {}", tensor.name, out.rows, kMaxVirtualTokens));
  }
  ASSIGN_OR_RETURN(out.values, ToFloats(tensor.name, tensor.data));
  if (!std::ranges::all_of(out.values, [](float value) { return std::isfinite(value); })) {
    return Corruption(fmt::format("tensor '{}' holds a value that is not finite", tensor.name));
  }
  return out;
}

/// The only tensor of a file.
Result<SoftPrompt> ReadOnly(const std::string& path, std::string_view name) {
  ASSIGN_OR_RETURN(const SafeTensors file, SafeTensors::OpenFile(path));
  if (!file.others().empty()) {
    const OtherTensor& other = file.others().front();
    return InvalidArgument(fmt::format("tensor '{}' is stored as {}, which is not supported", other.name, other.type));
  }
  for (const FileTensor& tensor : file.tensors()) {
    if (!name.empty() && tensor.name != name) {
      return InvalidArgument(
          fmt::format("tensor '{}' is not part of a soft prompt, which has '{}'", tensor.name, name));
    }
  }
  if (file.tensors().size() != 1) {
    return Corruption(fmt::format("the file has {} tensors; a soft prompt has one", file.tensors().size()));
  }
  return ReadTable(file.tensors().front());
}

}  // namespace

std::array<uint8_t, 16> SoftPrompt::Digest() const {
  ringside::Digest digest;
  digest.AddText("soft prompt");
  for (const int64_t size : {rows, columns}) digest.AddNumber(size);
  digest.AddBytes(values.data(), values.size() * sizeof(float));
  return digest.Get();
}

Result<SoftPrompt> ReadSoftPrompt(const std::string& path) {
  std::error_code ignored;
  if (!std::filesystem::is_directory(path, ignored)) return ReadOnly(path, "");
  ASSIGN_OR_RETURN(const Settings settings, ReadSettings(path + "/adapter_config.json"));
  ASSIGN_OR_RETURN(SoftPrompt out, ReadOnly(path + "/adapter_model.safetensors", "prompt_embeddings"));
  if (settings.rows.value_or(out.rows) == out.rows && settings.columns.value_or(out.columns) == out.columns) return out;
  return Corruption(fmt::format("the table is {} by {}, but adapter_config.json has {} by {}", out.rows, out.columns,
                                settings.rows.value_or(out.rows), settings.columns.value_or(out.columns)));
}

}  // namespace ringside
