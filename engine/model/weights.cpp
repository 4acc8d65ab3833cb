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

// Every planned tensor is there with its shape, and nothing else is.
Status CheckTensors(const NetworkPlan& plan, const TensorTable& table,
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

class Loader {
 public:
  Loader(Backend& backend, const ModelSpec& spec) : backend_(backend), spec_(spec) {
    weights_.layers.resize(static_cast<size_t>(spec.layers));
    weights_.tied_head = spec.tied_head;
    AddSpec(spec, &digest_);
  }

  Status Load(const PlannedTensor& planned, const FileTensor& tensor) {
    AddTensor(tensor, &digest_);
    // A layer's -1 is never looked at: only roles of no layer have it.
    LayerWeights& layer = weights_.layers[static_cast<size_t>(planned.layer < 0 ? 0 : planned.layer)];
    switch (planned.role) {
      case TensorRole::kEmbedding:
        return LoadMatrix(planned, tensor, &weights_.embedding);
      case TensorRole::kPositions:
        return LoadMatrix(planned, tensor, &weights_.positions);
      case TensorRole::kHead:
        return LoadMatrix(planned, tensor, &weights_.own_head);
      case TensorRole::kFinalNorm:
        return LoadVector(tensor, &weights_.final_norm);
      case TensorRole::kFinalNormBias:
        return LoadVector(tensor, &weights_.final_norm_bias);
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
        return LoadJoined(tensor, spec_.qkv_columns(), &layer.qkv_bias);
      case TensorRole::kGateBias:
      case TensorRole::kUpBias:
        return LoadJoined(tensor, spec_.mlp_in_columns(), &layer.mlp_in_bias);
      case TensorRole::kQueryNorm:
        return LoadVector(tensor, &layer.query_norm);
      case TensorRole::kKeyNorm:
        return LoadVector(tensor, &layer.key_norm);
      case TensorRole::kAttentionOut:
        return LoadMatrix(planned, tensor, &layer.attention_out);
      case TensorRole::kAttentionOutBias:
        return LoadVector(tensor, &layer.attention_out_bias);
      case TensorRole::kMlpNorm:
        return LoadVector(tensor, &layer.mlp_norm);
      case TensorRole::kMlpNormBias:
        return LoadVector(tensor, &layer.mlp_norm_bias);
      case TensorRole::kDown:
        return LoadMatrix(planned, tensor, &layer.mlp_out);
      case TensorRole::kDownBias:
        return LoadVector(tensor, &layer.mlp_out_bias);
    }
    return Status::Ok();
  }

  Weights Finish() {
    backend_.Synchronize();
    weights_.digest = digest_.Get();
    return std::move(weights_);
  }

 private:
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
  Status LoadJoined(const FileTensor& tensor, int64_t total, DeviceVector* vector) {
    ASSIGN_OR_RETURN(const std::vector<float> values, ToFloats(tensor));
    std::vector<float>& all = joined_[vector];
    all.insert(all.end(), values.begin(), values.end());
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
  const ModelSpec& spec_;
  Weights weights_;
  Digest digest_;
  std::map<const DeviceVector*, std::vector<float>> joined_;
};

}  // namespace

Result<Weights> LoadWeights(const NetworkPlan& plan, std::span<const FileTensor> tensors,
                            std::span<const std::pair<std::string, std::string>> unsupported, Backend& backend) {
  TensorTable table;
  for (const FileTensor& tensor : tensors) {
    if (!table.emplace(tensor.name, &tensor).second) {
      return Corruption(fmt::format("tensor '{}' is there twice", tensor.name));
    }
  }
  RETURN_IF_ERROR(CheckTensors(plan, table, unsupported));
  Loader loader(backend, plan.spec);
  for (const PlannedTensor& planned : plan.tensors) RETURN_IF_ERROR(loader.Load(planned, *table.at(planned.name)));
  return loader.Finish();
}

}  // namespace ringside
