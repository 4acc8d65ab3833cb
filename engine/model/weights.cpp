#include "engine/model/weights.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <bit>
#include <cstring>
#include <map>
#include <memory>
#include <set>

#include "engine/model/digest.h"

namespace ringside {
namespace {

float HalfToFloat(uint16_t half) {
  const uint32_t sign = (half & 0x8000u) << 16, exponent = (half >> 10) & 0x1f, fraction = half & 0x3ff;
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000u | fraction << 13);
  if (exponent == 0) {  // zero or subnormal: fraction * 2^-24
    const float value = static_cast<float>(fraction) * 0x1p-24f;
    return sign != 0 ? -value : value;
  }
  return std::bit_cast<float>(sign | (exponent + 112) << 23 | fraction << 13);
}

template <class T>
std::vector<T> Values(std::span<const std::byte> bytes) {
  std::vector<T> out(bytes.size() / sizeof(T));
  std::memcpy(out.data(), bytes.data(), out.size() * sizeof(T));
  return out;
}

Result<std::vector<float>> ToFloats(const FileTensor& tensor) {
  if (tensor.data.dtype == DType::kF32) return Values<float>(tensor.data.bytes);
  if (tensor.data.dtype != DType::kF16 && tensor.data.dtype != DType::kBF16) {
    return InvalidArgument(fmt::format("tensor '{}' is stored as {}, a vector must be float", tensor.name,
                                       Traits(tensor.data.dtype).name));
  }
  std::vector<float> out;
  for (const uint16_t bits : Values<uint16_t>(tensor.data.bytes)) {
    out.push_back(tensor.data.dtype == DType::kF16 ? HalfToFloat(bits)
                                                   : std::bit_cast<float>(static_cast<uint32_t>(bits) << 16));
  }
  return out;
}

// [rows, cols] to [cols, rows]; T is as wide as an element.
template <class T>
std::vector<std::byte> Transpose(const HostTensor& from) {
  const std::vector<T> in = Values<T>(from.bytes);
  std::vector<T> out(in.size());
  for (int64_t r = 0; r < from.rows; ++r) {
    for (int64_t c = 0; c < from.cols; ++c) {
      out[static_cast<size_t>(c * from.rows + r)] = in[static_cast<size_t>(r * from.cols + c)];
    }
  }
  std::vector<std::byte> bytes(from.bytes.size());
  std::memcpy(bytes.data(), out.data(), bytes.size());
  return bytes;
}

void AddTensor(const FileTensor& tensor, Digest* digest) {
  digest->AddText(tensor.name);
  digest->AddNumber(static_cast<int64_t>(tensor.data.dtype));
  digest->AddNumber(static_cast<int64_t>(tensor.shape.size()));
  for (const int64_t size : tensor.shape) digest->AddNumber(size);
  digest->AddBytes(tensor.data.bytes.data(), tensor.data.bytes.size());
}

// Everything but the name, which no number depends on.
void AddSpec(const ModelSpec& spec, Digest* digest) {
  digest->AddText(spec.architecture);
  for (const int64_t value : {spec.layers,
                              spec.hidden,
                              spec.heads,
                              spec.kv_heads,
                              spec.head_dim,
                              spec.ffn,
                              spec.vocab,
                              spec.trained_context,
                              spec.sliding_window,
                              static_cast<int64_t>(spec.norm),
                              static_cast<int64_t>(spec.mlp),
                              static_cast<int64_t>(spec.learned_positions),
                              static_cast<int64_t>(spec.tied_head),
                              static_cast<int64_t>(spec.qk_norm),
                              static_cast<int64_t>(spec.fused_qkv),
                              static_cast<int64_t>(spec.qkv_bias),
                              static_cast<int64_t>(spec.attention_out_bias),
                              static_cast<int64_t>(spec.mlp_bias),
                              static_cast<int64_t>(spec.rope_pairs),
                              spec.rotary}) {
    digest->AddNumber(value);
  }
  digest->AddFloat(static_cast<double>(spec.norm_eps));
  digest->AddFloat(spec.rope_magnitude);
  for (const double frequency : spec.inverse_frequencies) digest->AddFloat(frequency);
}

using TensorTable = std::map<std::string_view, const FileTensor*>;

TensorTable TableOf(std::span<const FileTensor> tensors) {
  TensorTable table;
  for (const FileTensor& tensor : tensors) table.emplace(tensor.name, &tensor);
  return table;
}

// Every planned tensor is there with its shape, and nothing else is.
Status CheckPlan(const NetworkPlan& plan, const TensorTable& table,
                 std::span<const std::pair<std::string, std::string>> unsupported) {
  std::set<std::string_view> known(plan.ignored.begin(), plan.ignored.end());
  for (const PlannedTensor& planned : plan.tensors) {
    known.insert(planned.name);
    for (const auto& [name, type] : unsupported) {
      if (name == planned.name) {
        return InvalidArgument(fmt::format("tensor '{}' is stored as {}, which is not supported", name, type));
      }
    }
    const auto found = table.find(planned.name);
    if (found == table.end()) return Corruption(fmt::format("tensor '{}' is missing", planned.name));
    if (found->second->shape != planned.shape) {
      return Corruption(fmt::format("tensor '{}' has shape [{}], the model's metadata ask for [{}]", planned.name,
                                    fmt::join(found->second->shape, ", "), fmt::join(planned.shape, ", ")));
    }
  }
  const auto unknown = [](std::string_view name) {
    return Corruption(fmt::format("tensor '{}' is none that this kind of model has", name));
  };
  for (const auto& [name, tensor] : table) {
    if (!known.contains(name)) return unknown(name);
  }
  for (const auto& [name, type] : unsupported) {
    if (!known.contains(name)) return unknown(name);
  }
  return Status::Ok();
}

/// What a rank has of a matrix or vector: outputs, in the order in which they come, and inputs.
struct Cut {
  std::vector<IndexRange> outputs;
  IndexRange inputs;
};

class Loader {
 public:
  Loader(Backend& backend, const ModelSpec& spec, const Shard& shard)
      : backend_(backend), spec_(spec), own_(shard.Of(spec)), shard_(shard) {
    weights_.layers.resize(static_cast<size_t>(own_.layers));
    weights_.tied_head = spec.tied_head && shard.whole() && shard.embeds() && shard.chooses();
  }

  Status Load(const PlannedTensor& planned, const FileTensor& tensor) {
    const bool of_layer = planned.layer >= 0;
    if (of_layer && (planned.layer < shard_.layers.begin || planned.layer >= shard_.layers.end)) return Status::Ok();
    // The first is never looked at by roles of no layer.
    LayerWeights& layer = weights_.layers[static_cast<size_t>(of_layer ? planned.layer - shard_.layers.begin : 0)];
    switch (planned.role) {
      case TensorRole::kEmbedding:
        if (shard_.embeds()) RETURN_IF_ERROR(LoadMatrix(planned, tensor, &weights_.embedding));
        // The whole table gives rows to the stream; all of it, or a part, takes the stream to logits.
        if (!spec_.tied_head || weights_.tied_head || !shard_.chooses()) return Status::Ok();
        return LoadMatrix({.role = TensorRole::kHead, .name = planned.name, .transposed = planned.transposed}, tensor,
                          &weights_.own_head);
      case TensorRole::kPositions:
        return shard_.embeds() ? LoadMatrix(planned, tensor, &weights_.positions) : Status::Ok();
      case TensorRole::kHead:
        return shard_.chooses() ? LoadMatrix(planned, tensor, &weights_.own_head) : Status::Ok();
      case TensorRole::kFinalNorm:
        return shard_.chooses() ? LoadVector(tensor, &weights_.final_norm) : Status::Ok();
      case TensorRole::kFinalNormBias:
        return shard_.chooses() ? LoadVector(tensor, &weights_.final_norm_bias) : Status::Ok();
      case TensorRole::kAttentionNorm:
        return LoadVector(tensor, &layer.attention_norm);
      case TensorRole::kAttentionNormBias:
        return LoadVector(tensor, &layer.attention_norm_bias);
      // The plan lists queries before keys before values, gates before ups.
      case TensorRole::kQuery:
      case TensorRole::kKey:
      case TensorRole::kValue:
      case TensorRole::kQkv:
        return LoadMatrix(planned, tensor, &layer.qkv.emplace_back());
      case TensorRole::kGate:
      case TensorRole::kUp:
        return LoadMatrix(planned, tensor, &layer.mlp_in.emplace_back());
      case TensorRole::kQueryBias:
      case TensorRole::kKeyBias:
      case TensorRole::kValueBias:
      case TensorRole::kQkvBias:
        return LoadJoined(planned, tensor, own_.qkv_columns(), &layer.qkv_bias);
      case TensorRole::kGateBias:
      case TensorRole::kUpBias:
        return LoadJoined(planned, tensor, own_.mlp_in_columns(), &layer.mlp_in_bias);
      case TensorRole::kQueryNorm:
        return LoadVector(tensor, &layer.query_norm);
      case TensorRole::kKeyNorm:
        return LoadVector(tensor, &layer.key_norm);
      case TensorRole::kAttentionOut:
        return LoadMatrix(planned, tensor, &layer.attention_out);
      // What all ranks' products are summed to gets its bias once.
      case TensorRole::kAttentionOutBias:
        return shard_.rank == 0 ? LoadVector(tensor, &layer.attention_out_bias) : Status::Ok();
      case TensorRole::kMlpNorm:
        return LoadVector(tensor, &layer.mlp_norm);
      case TensorRole::kMlpNormBias:
        return LoadVector(tensor, &layer.mlp_norm_bias);
      case TensorRole::kDown:
        return LoadMatrix(planned, tensor, &layer.mlp_out);
      case TensorRole::kDownBias:
        return shard_.rank == 0 ? LoadVector(tensor, &layer.mlp_out_bias) : Status::Ok();
    }
    return Status::Ok();
  }

  Weights Finish() {
    backend_.Synchronize();
    return std::move(weights_);
  }

 private:
  Cut CutOf(TensorRole role, int64_t rows, int64_t cols) const {
    const IndexRange all_rows{0, rows}, all_cols{0, cols};
    const auto heads = [&](IndexRange range, int64_t first) {  // their columns, where those of head 0 begin at `first`
      return IndexRange{first + range.begin * spec_.head_dim, first + range.end * spec_.head_dim};
    };
    const int64_t keys = spec_.heads * spec_.head_dim, values = keys + spec_.kv_heads * spec_.head_dim;
    switch (role) {
      case TensorRole::kHead:
        return {{shard_.vocab}, all_cols};
      case TensorRole::kQuery:
      case TensorRole::kQueryBias:
        return {{heads(shard_.heads, 0)}, all_cols};
      case TensorRole::kKey:
      case TensorRole::kValue:
      case TensorRole::kKeyBias:
      case TensorRole::kValueBias:
        return {{heads(shard_.kv_heads, 0)}, all_cols};
      case TensorRole::kQkv:
      case TensorRole::kQkvBias:
        return {{heads(shard_.heads, 0), heads(shard_.kv_heads, keys), heads(shard_.kv_heads, values)}, all_cols};
      case TensorRole::kGate:
      case TensorRole::kUp:
      case TensorRole::kGateBias:
      case TensorRole::kUpBias:
        return {{shard_.ffn}, all_cols};
      case TensorRole::kAttentionOut:
        return {{all_rows}, heads(shard_.heads, 0)};
      case TensorRole::kDown:
        return {{all_rows}, shard_.ffn};
      default:
        return {{all_rows}, all_cols};
    }
  }

  /// `host` cut down to the rank's part, copied to `copy` unless it is all of it.
  Status Take(const PlannedTensor& planned, HostTensor* host, std::vector<std::byte>* copy) const {
    const Cut cut =
        shard_.whole() ? Cut{{{0, host->rows}}, {0, host->cols}} : CutOf(planned.role, host->rows, host->cols);
    int64_t rows = 0;
    for (const IndexRange& outputs : cut.outputs) rows += outputs.size();
    if (rows == host->rows && cut.inputs.size() == host->cols) return Status::Ok();
    const int64_t block = Traits(host->dtype).block_elements;
    if (cut.inputs.begin % block != 0 || cut.inputs.end % block != 0) {
      return InvalidArgument(fmt::format("tensor '{}' is stored as {}, in blocks of {} values, and cannot be shared by "
                                         "{} ranks",
                                         planned.name, Traits(host->dtype).name, block, shard_.ranks),
                             "tensor_parallel_size");
    }
    const auto bytes_of = [&](int64_t values) { return static_cast<size_t>(StorageBytes(host->dtype, values)); };
    std::vector<std::byte> taken;
    taken.reserve(bytes_of(rows * cut.inputs.size()));
    for (const IndexRange& outputs : cut.outputs) {
      for (int64_t row = outputs.begin; row < outputs.end; ++row) {
        const auto values =
            host->bytes.subspan(bytes_of(row * host->cols + cut.inputs.begin), bytes_of(cut.inputs.size()));
        taken.insert(taken.end(), values.begin(), values.end());
      }
    }
    *copy = std::move(taken);
    *host = {host->dtype, rows, cut.inputs.size(), *copy, host->table};
    return Status::Ok();
  }

  Status LoadMatrix(const PlannedTensor& planned, const FileTensor& tensor, Weight* weight) {
    HostTensor host = tensor.data;
    std::vector<std::byte> copy;
    const auto element_bytes = static_cast<size_t>(StorageBytes(host.dtype, Traits(host.dtype).block_elements));
    if (planned.transposed) {
      if (IsQuantised(host.dtype)) {
        return InvalidArgument(fmt::format("tensor '{}' is quantised but must be transposed", tensor.name));
      }
      copy = element_bytes == 4 ? Transpose<uint32_t>(host) : Transpose<uint16_t>(host);
      host = {host.dtype, host.cols, host.rows, copy};
    } else if (!IsQuantised(host.dtype) && reinterpret_cast<uintptr_t>(host.bytes.data()) % element_bytes != 0) {
      // Safetensors data may lie anywhere.
      copy.assign(host.bytes.begin(), host.bytes.end());
      host.bytes = copy;
    }
    RETURN_IF_ERROR(Take(planned, &host, &copy));
    host.table = planned.role == TensorRole::kEmbedding || planned.role == TensorRole::kHead ||
                 planned.role == TensorRole::kPositions;
    auto loaded = backend_.LoadWeight(host);
    if (!loaded.ok()) {
      return Status(loaded.status().code(), fmt::format("tensor '{}': {}", tensor.name, loaded.status().message()));
    }
    *weight = std::move(*loaded);
    weights_.bytes += static_cast<int64_t>(weight->data.bytes() + weight->scales.bytes());
    return Status::Ok();
  }

  Status LoadVector(const FileTensor& tensor, DeviceVector* vector) {
    ASSIGN_OR_RETURN(const std::vector<float> values, ToFloats(tensor));
    return Upload(values, vector);
  }

  // Biases that make up one of `total` values: on the device when all are there.
  Status LoadJoined(const PlannedTensor& planned, const FileTensor& tensor, int64_t total, DeviceVector* vector) {
    ASSIGN_OR_RETURN(const std::vector<float> values, ToFloats(tensor));
    const auto count = static_cast<int64_t>(values.size());
    const Cut cut = shard_.whole() ? Cut{{{0, count}}, {}} : CutOf(planned.role, count, 0);
    std::vector<float>& all = joined_[vector];
    for (const IndexRange& part : cut.outputs)
      all.insert(all.end(), values.begin() + part.begin, values.begin() + part.end);
    if (static_cast<int64_t>(all.size()) < total) return Status::Ok();
    RETURN_IF_ERROR(Upload(all, vector));
    if (StorageBytes(backend_.weight_dtype(), 1) != 2) return Status::Ok();
    ASSIGN_OR_RETURN(vector->rounded, backend_.LoadWeight({DType::kF32, 1, total, std::as_bytes(std::span(all))}));
    weights_.bytes += static_cast<int64_t>(vector->rounded.data.bytes());
    return Status::Ok();
  }

  Status Upload(const std::vector<float>& values, DeviceVector* vector) {
    const size_t bytes = values.size() * sizeof(float);
    ASSIGN_OR_RETURN(vector->buffer, backend_.Allocate(bytes));
    weights_.bytes += static_cast<int64_t>(bytes);
    backend_.CopyToDevice(vector->buffer.data(), values.data(), bytes);
    return Status::Ok();
  }

  Backend& backend_;
  const ModelSpec& spec_;  // the whole network's
  const ModelSpec own_;    // of what the rank computes
  const Shard& shard_;
  Weights weights_;
  std::map<const DeviceVector*, std::vector<float>> joined_;
};

}  // namespace

Status CheckTensors(const NetworkPlan& plan, std::span<const FileTensor> tensors,
                    std::span<const std::pair<std::string, std::string>> unsupported) {
  TensorTable table;
  for (const FileTensor& tensor : tensors) {
    if (!table.emplace(tensor.name, &tensor).second) {
      return Corruption(fmt::format("tensor '{}' is there twice", tensor.name));
    }
  }
  return CheckPlan(plan, table, unsupported);
}

Result<Weights> LoadWeights(const NetworkPlan& plan, std::span<const FileTensor> tensors, const Shard& shard,
                            Backend& backend, Digest* digest) {
  const TensorTable table = TableOf(tensors);
  Loader loader(backend, plan.spec, shard);
  if (digest != nullptr) AddSpec(plan.spec, digest);
  for (const PlannedTensor& planned : plan.tensors) {
    const FileTensor& tensor = *table.at(planned.name);
    if (digest != nullptr) AddTensor(tensor, digest);
    RETURN_IF_ERROR(loader.Load(planned, tensor));
  }
  return loader.Finish();
}

}  // namespace ringside
