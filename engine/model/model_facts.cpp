#include "engine/model/model_facts.h"

#include <fmt/format.h>

#include <string_view>
#include <unordered_map>

#include "engine/families/network_plan.h"
#include "engine/files/file_paths.h"
#include "engine/files/packed_tensors.h"
#include "engine/model/network_needs.h"
#include "engine/model/weights/weights.h"

namespace ringside {
namespace {

int64_t StoredBytes(const FileTensor& tensor) {
  if (tensor.packed != nullptr) {
    const PackedParts& parts = *tensor.packed;
    return std::ssize(parts.integers) + std::ssize(parts.scales) + std::ssize(parts.zeros) +
           4 * std::ssize(parts.float_scales);
  }
  int64_t bytes = std::ssize(tensor.data.bytes);
  for (const auto& piece : tensor.pieces) bytes += std::ssize(piece);
  return bytes;
}

/// Whether a token reads one row of the table only.
bool IsTable(TensorRole role, const ModelSpec& spec) {
  return (role == TensorRole::kEmbedding && !spec.tied_head) || role == TensorRole::kPositions ||
         role == TensorRole::kLayerInputTable;
}

}  // namespace

NetworkShape ShapeOf(const ModelSpec& spec) {
  return {.layers = spec.attention_layers(),
          .kv_heads = spec.kv_heads,
          .head_dim = spec.head_dim,
          .vocab = spec.vocab,
          .latent_dim = spec.latent.rank,
          .varied = spec.varied_layers(),
          .position_limit = spec.learned_positions ? spec.trained_context : 0,
          // FLOPs of a row in all layer weights, relative to those per attended token.
          .attention_context = static_cast<double>(spec.layer_weights()) /
                               static_cast<double>(2 * spec.attention_layers() * spec.heads * spec.head_dim),
          .state = spec.state(),
          .encodes = spec.encoder_layers > 0,
          .hidden = spec.encoder_layers == 0 ? spec.embedding_columns() : 0};
}

Status CheckTokenizer(const std::string& path, const TokenizerData& tokenizer, const ModelSpec& spec) {
  const auto tokens = static_cast<int64_t>(tokenizer.tokens.size());
  if (tokens <= spec.vocab) return Status::Ok();
  return InvalidArgument(fmt::format("{}: the tokenizer has {} tokens, the model {}", path, tokens, spec.vocab));
}

Result<ModelFiles> OpenCheckedFiles(const std::string& path, const Backend& backend, DraftLayer draft) {
  ASSIGN_OR_RETURN(ModelFiles files, OpenModelFiles(path, draft));
  RETURN_IF_ERROR(WithPath(path, CheckNeeds(files.plan.spec, backend)));
  RETURN_IF_ERROR(WithPath(path, CheckTensors(files.plan, files.tensors, files.unsupported)));
  RETURN_IF_ERROR(CheckTokenizer(path, files.tokenizer, files.plan.spec));
  return files;
}

Result<ModelFacts> ReadModelFacts(const std::string& path, const Backend& backend, DraftLayer draft) {
  ASSIGN_OR_RETURN(const ModelFiles files, OpenCheckedFiles(path, backend, draft));
  std::unordered_map<std::string_view, int64_t> bytes;
  for (const FileTensor& tensor : files.tensors) bytes.emplace(tensor.name, StoredBytes(tensor));
  ModelFacts facts{.spec = files.plan.spec};
  for (const PlannedTensor& planned : files.plan.tensors) {
    const auto counted_once = bytes.extract(planned.name);
    const int64_t stored = counted_once.empty() ? 0 : counted_once.mapped();
    facts.weight_bytes += stored;
    if (IsTable(planned.role, facts.spec)) continue;
    const bool chosen = PlaceOf(planned.role) == TensorPlace::kExpert && facts.spec.experts > 0;
    facts.token_bytes += chosen ? stored * facts.spec.experts_used / facts.spec.experts : stored;
  }
  return facts;
}

}  // namespace ringside
