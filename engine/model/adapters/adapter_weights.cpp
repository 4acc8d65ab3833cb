#include "engine/model/adapters/adapter_weights.h"

#include <fmt/format.h>

#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "engine/model/weights/file_values.h"
#include "engine/model/weights/tensor_cut.h"

namespace ringside {
namespace {

using Plan = std::map<std::string_view, const PlannedTensor*>;  // matrices by name

/// Only matrices of a layer's attention and of its dense MLP can be adapted; nullopt for others.
std::optional<AdaptedPart> PartOf(TensorRole role) {
  static const std::map<TensorRole, AdaptedPart> parts = {
      {TensorRole::kQuery, AdaptedPart::kQkv},  {TensorRole::kKey, AdaptedPart::kQkv},
      {TensorRole::kValue, AdaptedPart::kQkv},  {TensorRole::kQkv, AdaptedPart::kQkv},
      {TensorRole::kGate, AdaptedPart::kMlpIn}, {TensorRole::kAttentionOut, AdaptedPart::kAttentionOut},
      {TensorRole::kUp, AdaptedPart::kMlpIn},   {TensorRole::kGateUp, AdaptedPart::kMlpIn},
      {TensorRole::kDown, AdaptedPart::kMlpOut}};
  const auto found = parts.find(role);
  return found == parts.end() ? std::nullopt : std::optional(found->second);
}

int64_t FirstOutput(TensorRole role, const ModelSpec& own, int64_t layer) {
  const auto [kv_heads, head_dim] = own.KvSizes(layer);
  const int64_t queries = own.Heads(layer) * head_dim, keys = kv_heads * head_dim;
  if (role == TensorRole::kKey) return own.gate_columns(layer) + queries;
  if (role == TensorRole::kValue) return own.gate_columns(layer) + queries + keys;
  return role == TensorRole::kUp && own.gated ? own.DenseColumns(layer) : 0;
}

/// The tensor of a module. The adapter's file may prefix a name ("transformer.h.0" for the model's "h.0").
Result<const PlannedTensor*> Find(const Plan& plan, std::string_view module) {
  const std::string name = std::string(module) + ".weight";
  auto found = plan.find(name);
  if (found == plan.end()) found = plan.find(std::string_view(name).substr(name.find('.') + 1));
  if (found == plan.end()) return InvalidArgument(fmt::format("the model has no module '{}'", module));
  if (PartOf(found->second->role)) return found->second;
  return InvalidArgument(
      fmt::format("module '{}' cannot be adapted: only a layer's attention and its one MLP can", module));
}

Result<Weight> Upload(std::span<const float> values, int64_t rows, int64_t cols, Backend& backend) {
  return backend.LoadWeight({.rows = rows, .cols = cols, .bytes = std::as_bytes(values), .adapter = true});
}

/// The given rows and columns of a row-major matrix with `cols` columns.
std::vector<float> Taken(const std::vector<float>& from, int64_t cols, std::span<const int64_t> rows,
                         std::span<const IndexRange> columns) {
  std::vector<float> out;
  for (const int64_t row : rows) {
    const auto begin = from.begin() + row * cols;
    for (const IndexRange& range : columns) out.insert(out.end(), begin + range.begin, begin + range.end);
  }
  return out;
}

Result<LowRank> LoadMatrix(const AdapterMatrix& matrix, const PlannedTensor& planned, const ModelSpec& spec,
                           const Shard& shard, Backend& backend) {
  const TensorCut cut = CutOf(shard, spec, planned, matrix.outputs, matrix.inputs);
  const std::vector<int64_t> in_file = RowsInOrder(planned.order, spec, matrix.outputs);
  std::vector<int64_t> outputs;
  for (const IndexRange& range : cut.outputs) {
    outputs.insert(outputs.end(), in_file.begin() + range.begin, in_file.begin() + range.end);
  }
  LowRank out;
  out.first_output = FirstOutput(planned.role, shard.Of(spec), planned.layer - shard.layers.begin);
  const std::vector<float> a =
      Taken(matrix.a, matrix.inputs, RowsInOrder(RowOrder::kPlain, spec, matrix.rank), cut.inputs);
  ASSIGN_OR_RETURN(out.a, Upload(a, matrix.rank, cut.cols(), backend));
  const IndexRange ranks[] = {{0, matrix.rank}};
  const std::vector<float> b = Taken(matrix.b, matrix.rank, outputs, ranks);
  ASSIGN_OR_RETURN(out.b, Upload(b, cut.rows(), matrix.rank, backend));
  return out;
}

Status CheckKind(const AdapterFile& file, bool gguf, const ModelSpec& spec) {
  if (file.gguf != gguf) {
    return InvalidArgument(fmt::format("the adapter is {} and the model {}: names and the order of rows differ",
                                       file.gguf ? "a GGUF file" : "in PEFT's format",
                                       gguf ? "a GGUF file" : "a Hugging Face folder"));
  }
  if (!gguf || file.architecture == spec.architecture) return Status::Ok();
  return InvalidArgument(fmt::format("the adapter is for the architecture '{}', but the model is '{}'",
                                     file.architecture, spec.architecture));
}

Status CheckShape(const AdapterMatrix& matrix, const PlannedTensor& planned) {
  int64_t outputs = planned.shape.front(), inputs = planned.shape.back();
  if (planned.transposed) std::swap(outputs, inputs);
  if (matrix.outputs == outputs && matrix.inputs == inputs) return Status::Ok();
  return Corruption(fmt::format("module '{}' has {} outputs and {} inputs, the model's has {} and {}", matrix.module,
                                matrix.outputs, matrix.inputs, outputs, inputs));
}

}  // namespace

Result<AdapterWeights> LoadAdapter(const AdapterFile& file, std::span<const PlannedTensor> planned, bool gguf,
                                   const ModelSpec& spec, const Shard& shard, Backend& backend) {
  RETURN_IF_ERROR(CheckKind(file, gguf, spec));
  Plan plan;
  for (const PlannedTensor& tensor : planned) plan.emplace(tensor.name, &tensor);
  AdapterWeights out;
  out.layers.resize(static_cast<size_t>(shard.layers.size()));
  std::set<const PlannedTensor*> adapted;
  for (const AdapterMatrix& matrix : file.matrices) {
    ASSIGN_OR_RETURN(const PlannedTensor* tensor, Find(plan, matrix.module));
    RETURN_IF_ERROR(CheckShape(matrix, *tensor));
    if (!adapted.insert(tensor).second) {
      return Corruption(fmt::format("module '{}' occurs under two names", matrix.module));
    }
    if (tensor->layer < shard.layers.begin || tensor->layer >= shard.layers.end) continue;
    ASSIGN_OR_RETURN(LowRank loaded, LoadMatrix(matrix, *tensor, spec, shard, backend));
    out.bytes += static_cast<int64_t>(loaded.a.data.bytes() + loaded.b.data.bytes());
    AdapterLayer& layer = out.layers[static_cast<size_t>(tensor->layer - shard.layers.begin)];
    layer[static_cast<size_t>(*PartOf(tensor->role))].push_back(std::move(loaded));
  }
  return out;
}

Result<AdapterWeights> LoadSoftPrompt(const SoftPrompt& prompt, const ModelSpec& spec, const Shard& shard,
                                      Backend& backend) {
  if (prompt.columns != spec.embedding_columns()) {
    return Corruption(fmt::format("a row of the soft prompt has {} values, an embedding of the model's has {}",
                                  prompt.columns, spec.embedding_columns()));
  }
  if (spec.learned_positions && prompt.rows >= spec.trained_context) {
    return InvalidArgument(
        fmt::format("the soft prompt has {} rows, which leaves no token any of the model's {} positions", prompt.rows,
                    spec.trained_context));
  }
  AdapterWeights out;
  out.layers.resize(static_cast<size_t>(shard.layers.size()));
  if (!shard.embeds()) return out;
  // Families that scale by sqrt(hidden) do so in the token embedding (Gemma, XGLM), and virtual rows skip it; any other
  // scale (Granite) applies to every input of the first layer.
  const bool of_tokens = spec.embedding_scale == std::sqrt(static_cast<float>(spec.hidden));
  std::vector<float> values = prompt.values;
  for (float& value : values) value *= of_tokens ? 1 : spec.embedding_scale;
  ASSIGN_OR_RETURN(out.soft_prompt, Upload(values, prompt.rows, prompt.columns, backend));
  out.bytes = static_cast<int64_t>(out.soft_prompt.data.bytes());
  return out;
}

}  // namespace ringside
