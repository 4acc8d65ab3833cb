#include "engine/model/weights/weights.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <optional>
#include <set>

#include "base/check.h"
#include "engine/model/weights/digest.h"
#include "engine/model/weights/file_values.h"
#include "engine/model/weights/model_fingerprint.h"
#include "engine/model/weights/tensor_cut.h"
#include "engine/model/weights/tensor_digest.h"

namespace ringside {
namespace {

using TensorTable = std::map<std::string_view, const FileTensor*>;

TensorTable TableOf(std::span<const FileTensor> tensors) {
  TensorTable table;
  for (const FileTensor& tensor : tensors) table.emplace(tensor.name, &tensor);
  return table;
}

// Every planned tensor exists with its shape, and there are no others.
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
      return Corruption(fmt::format("tensor '{}' has shape [{}], the model's metadata require [{}]", planned.name,
                                    fmt::join(found->second->shape, ", "), fmt::join(planned.shape, ", ")));
    }
  }
  const auto unknown = [](std::string_view name) {
    return Corruption(fmt::format("tensor '{}' is unknown for this architecture", name));
  };
  for (const auto& [name, tensor] : table) {
    if (!known.contains(name)) return unknown(name);
  }
  for (const auto& [name, type] : unsupported) {
    if (!known.contains(name)) return unknown(name);
  }
  return Status::Ok();
}

/// A distinct seed for each tensor.
uint64_t SeedOf(uint64_t seed, const std::string& name) {
  Digest digest;
  digest.AddNumber(static_cast<int64_t>(seed));
  digest.AddText(name);
  const std::array<uint8_t, 16> bytes = digest.Get();
  std::memcpy(&seed, bytes.data(), sizeof(seed));
  return seed;
}

class Loader {
 public:
  /// With a seed, tensors have no data and get random weights.
  Loader(Backend& backend, const ModelSpec& spec, const Shard& shard, std::optional<uint64_t> seed = {})
      : backend_(backend), spec_(spec), own_(shard.Of(spec)), shard_(shard), seed_(seed) {
    weights_.layers.resize(static_cast<size_t>(own_.all_layers()));
    weights_.encoder.layers.resize(static_cast<size_t>(spec.encoder_layers));
    weights_.tied_head = spec.tied_head && shard.whole() && shard.embeds() && shard.chooses();
  }

  Status Load(const PlannedTensor& planned, const FileTensor& tensor) {
    if (planned.encoder) return LoadEncoderTensor(planned, tensor);
    if (planned.layer >= 0) {
      const int64_t layer = planned.layer - shard_.layers.begin;
      if (layer < 0 || layer >= own_.all_layers()) return Status::Ok();
      return LoadLayerTensor(planned, tensor, weights_.layers[static_cast<size_t>(layer)]);
    }
    const bool chooses = PlaceOf(planned.role) == TensorPlace::kChoose;
    const bool embeds = planned.role == TensorRole::kEmbedding || shard_.embeds();  // a tied head needs the embedding
    if (chooses ? !shard_.chooses() : !embeds) return Status::Ok();
    LayerWeights none;
    const auto load = [&](const FileTensor& part, int64_t) { return LoadRole(planned, part, none); };
    const int64_t parts = PartsOf(planned.role, spec_);
    return parts > 0 && planned.expert < 0 ? LoadParts(tensor, parts, load) : load(tensor, 0);
  }

  /// Creates computed tensors and completes the weights.
  Result<Weights> Finish() {
    if (spec_.sinusoidal_positions && shard_.embeds()) {
      const std::vector<float> table = SinusoidalPositions(spec_.position_offset, spec_.trained_context, spec_.hidden);
      FileTensor made{.name = "positions",
                      .data = {DType::kF32, spec_.trained_context, spec_.hidden, std::as_bytes(std::span(table))}};
      RETURN_IF_ERROR(LoadMatrix({.role = TensorRole::kPositions, .name = made.name}, made, &weights_.positions));
    }
    if (spec_.value_norm) {
      const int64_t size = spec_.Widest(&ModelSpec::attended_columns) / spec_.heads;
      RETURN_IF_ERROR(Upload(std::vector<float>(static_cast<size_t>(size), 1.0f), &weights_.ones));
    }
    for (LayerWeights& layer : weights_.layers) {
      if (spec_.factors.scales_recurrence()) RETURN_IF_ERROR(FillRecurrentFactors(&layer.recurrent.in_factors));
    }
    for (int64_t layer = 0; !spec_.head_norm_weights && layer < own_.all_layers(); ++layer) {
      RETURN_IF_ERROR(FillHeadNorms(shard_.layers.begin + layer, &weights_.layers[static_cast<size_t>(layer)]));
    }
    if (spec_.embedding_norm && !spec_.embedding_norm_weights && shard_.embeds()) {
      RETURN_IF_ERROR(Upload(std::vector<float>(static_cast<size_t>(spec_.hidden), 1.0f), &weights_.embedding_norm));
    }
    const std::vector<float> slopes = spec_.AlibiSlopes();
    if (!slopes.empty()) {
      const IndexRange heads = shard_.Heads(spec_.heads, spec_.kv_heads).heads;
      const auto own = std::span(slopes).subspan(static_cast<size_t>(heads.begin), static_cast<size_t>(heads.size()));
      RETURN_IF_ERROR(Upload({own.begin(), own.end()}, &weights_.slopes));
    }
    if (shard_.chooses() && spec_.final_norm) {
      RETURN_IF_ERROR(FillNorm(&weights_.final_norm, &weights_.final_norm_bias, spec_.logit_scale));
    }
    for (LayerWeights& layer : weights_.layers) {
      if (!spec_.norm_before && !spec_.norm_sums) break;
      RETURN_IF_ERROR(FillNorm(&layer.attention_norm, &layer.attention_norm_bias, 1));
      if (!spec_.shared_norm) RETURN_IF_ERROR(FillNorm(&layer.mlp_norm, &layer.mlp_norm_bias, 1));
    }
    for (LayerWeights& layer : weights_.layers) {
      if (layer.experts.empty()) continue;
      for (const ExpertWeights& expert : layer.experts) {  // moving the weights does not move the experts
        layer.expert_list.push_back({expert.in, expert.in_bias.data(), &expert.out, expert.out_bias.data()});
      }
      ASSIGN_OR_RETURN(layer.placed_experts, backend_.PackExperts(layer.expert_list));
    }
    backend_.Synchronize();
    return std::move(weights_);
  }

 private:
  Status LoadEncoderTensor(const PlannedTensor& planned, const FileTensor& tensor) {
    EncoderWeights& encoder = weights_.encoder;
    if (planned.layer >= 0) return LoadLayerTensor(planned, tensor, encoder.layers[static_cast<size_t>(planned.layer)]);
    if (planned.role == TensorRole::kFinalNorm) {
      return LoadNorm(planned, tensor, &encoder.final_norm, 1, spec_.norm_offset);
    }
    return LoadDistanceBiases(planned, tensor, &encoder.biases);
  }

  Status LoadDistanceBiases(const PlannedTensor& planned, const FileTensor& tensor, DeviceVector* biases) {
    ASSIGN_OR_RETURN(std::vector<float> values, ValuesOf(tensor));
    if (planned.transposed) {
      const auto heads = static_cast<size_t>(spec_.heads), buckets = static_cast<size_t>(spec_.bias_buckets);
      const std::vector<float> by_head = values;
      for (size_t i = 0; i < values.size(); ++i) values[i] = by_head[i % heads * buckets + i / heads];
    }
    return Upload(spec_.DistanceBiases(values, planned.encoder), biases);
  }

  Status LoadLayerTensor(const PlannedTensor& planned, const FileTensor& tensor, LayerWeights& layer) {
    const bool of_layer = PlaceOf(planned.role) == TensorPlace::kLayer;
    return of_layer ? LoadRole(planned, tensor, layer) : LoadExperts(planned, tensor, layer);
  }

  Status LoadEmbedding(const PlannedTensor& planned, const FileTensor& tensor) {
    if (shard_.embeds()) RETURN_IF_ERROR(LoadMatrix(planned, tensor, &weights_.embedding));
    // The embedding needs the whole table; a tied head needs its vocabulary shard.
    if (!spec_.tied_head || weights_.tied_head || !shard_.chooses()) return Status::Ok();
    return LoadMatrix({.role = TensorRole::kHead, .name = planned.name, .transposed = planned.transposed}, tensor,
                      &weights_.own_head);
  }

  Status LoadPositions(const PlannedTensor& planned, const FileTensor& tensor) {
    FileTensor table = tensor;
    table.data.rows -= spec_.position_offset;
    if (!seed_) {
      table.data.bytes =
          table.data.bytes.last(static_cast<size_t>(StorageBytes(table.data.dtype, table.data.rows * table.data.cols)));
    }
    return LoadMatrix(planned, table, &weights_.positions);
  }

  /// Loads a tensor by its row of the table: into weights_, `layer` or `expert`.
  Status LoadRole(const PlannedTensor& planned, const FileTensor& tensor, LayerWeights& layer, ExpertWeights& expert) {
    const auto Matrix = [&](Weight* weight) { return LoadMatrix(planned, tensor, weight); };
    const auto Norm = [&](DeviceVector* vector, float scale = 1) {
      return LoadNorm(planned, tensor, vector, scale, spec_.norm_offset);
    };
    const auto Vector = [&](DeviceVector* to, float scale = 1) { return LoadVector(planned, tensor, to, 0, scale); };
    const auto Joined = [&](DeviceVector* to, int64_t total) { return LoadConcatenated(planned, tensor, total, to); };
    const int64_t layer_here = planned.layer - shard_.layers.begin;
    const int64_t width = planned.layer < 0 ? 0 : own_.DenseColumns(layer_here);
    const auto PlainNorm = [&](DeviceVector* vector) { return LoadNorm(planned, tensor, vector, 1, 0); };
    const auto Convolution = [&](DeviceVector* vector) { return LoadConvolution(planned, tensor, vector); };
    const auto Rate = [&](DeviceVector* vector) { return LoadRate(planned, tensor, vector); };
    const auto HeadNorm = [&](DeviceVector* vector, LayerWeights& of) {
      return LoadHeadNorm(planned, tensor, vector, of);
    };
    // The bias of an all-reduced sum is added on one rank only.
    const auto SumBias = [&](DeviceVector* vector) { return shard_.rank == 0 ? Vector(vector) : Status::Ok(); };
    switch (planned.role) {
#define TENSOR(role, place, shape, needed, split, load) \
  case TensorRole::role:                                \
    return load;
#include "engine/families/tensor_roles.def"
    }
    CheckFailed(__FILE__, __LINE__, "unknown role");
  }
  Status LoadRole(const PlannedTensor& planned, const FileTensor& tensor, LayerWeights& layer) {
    ExpertWeights none;
    return LoadRole(planned, tensor, layer, none);
  }

  /// A tensor of one expert, or of all experts.
  Status LoadExperts(const PlannedTensor& planned, const FileTensor& tensor, LayerWeights& layer) {
    layer.experts.resize(static_cast<size_t>(spec_.experts + (spec_.shared_ffn > 0 ? 1 : 0)));
    const bool shared = PlaceOf(planned.role) == TensorPlace::kShared, all = !shared && planned.expert < 0;
    if (!all)
      return LoadRole(planned, tensor, layer,
                      layer.experts[static_cast<size_t>(shared ? spec_.experts : planned.expert)]);
    return LoadParts(tensor, spec_.experts, [&](const FileTensor& one, int64_t expert) {
      return LoadRole(planned, one, layer, layer.experts[static_cast<size_t>(expert)]);
    });
  }

  /// Calls `load` with each of the `parts` of equal size that a file joins.
  template <class LoadPart>
  Status LoadParts(const FileTensor& tensor, int64_t parts, const LoadPart& load) {
    FileTensor one = tensor;
    one.data.rows /= parts;
    const size_t bytes = tensor.data.bytes.size() / static_cast<size_t>(parts);
    for (int64_t part = 0; part < parts; ++part) {
      one.data.bytes = tensor.data.bytes.subspan(static_cast<size_t>(part) * bytes, bytes);
      if (seed_) one.name = fmt::format("{}.{}", tensor.name, part);
      RETURN_IF_ERROR(load(one, part));
    }
    return Status::Ok();
  }

  /// Reduces `host` to the rank's part, copied to `copy` unless it is the whole tensor.
  Status Take(const PlannedTensor& planned, HostTensor* host, std::vector<std::byte>* copy) const {
    const TensorCut cut = CutOf(shard_, spec_, planned, host->rows, host->cols);
    const int64_t rows = cut.rows(), cols = cut.cols();
    if (rows == host->rows && cols == host->cols) return Status::Ok();
    const bool some_inputs = cols != host->cols;
    if (some_inputs && !host->order.empty()) {
      return InvalidArgument(fmt::format("tensor '{}' has act-order inputs (desc_act), and cannot be shared "
                                         "by {} ranks",
                                         planned.name, shard_.ranks),
                             "tensor_parallel_size");
    }
    const int64_t block = Traits(host->dtype).block_elements;
    const auto splits_block = [block](const IndexRange& range) {
      return range.begin % block != 0 || range.end % block != 0;
    };
    if (std::ranges::any_of(cut.inputs, splits_block)) {
      return InvalidArgument(fmt::format("tensor '{}' is stored as {}, in blocks of {} values, and cannot be shared by "
                                         "{} ranks",
                                         planned.name, Traits(host->dtype).name, block, shard_.ranks),
                             "tensor_parallel_size");
    }
    const auto bytes_of = [&](int64_t values) { return static_cast<size_t>(StorageBytes(host->dtype, values)); };
    std::vector<std::byte> taken;
    taken.reserve(bytes_of(rows * cols));
    for (const IndexRange& outputs : cut.outputs) {
      for (int64_t row = outputs.begin; row < outputs.end; ++row) {
        for (const IndexRange& inputs : cut.inputs) {
          const auto values = host->bytes.subspan(bytes_of(row * host->cols + inputs.begin), bytes_of(inputs.size()));
          taken.insert(taken.end(), values.begin(), values.end());
        }
      }
    }
    *copy = std::move(taken);
    host->rows = rows, host->cols = cols, host->bytes = *copy;
    return Status::Ok();
  }

  static bool IsTable(TensorRole role) {
    return role == TensorRole::kEmbedding || role == TensorRole::kHead || role == TensorRole::kPositions ||
           role == TensorRole::kLayerInputTable;
  }

  RandomMatrix DummyMatrix(const PlannedTensor& planned, const FileTensor& tensor) const {
    int64_t rows = tensor.data.rows, cols = tensor.data.cols;
    if (planned.transposed) std::swap(rows, cols);
    const TensorCut cut = CutOf(shard_, spec_, planned, rows, cols);
    CHECK_EQ(std::ssize(cut.inputs), 1);  // more only in GGUF files, which have data
    RandomMatrix matrix{.seed = SeedOf(*seed_, tensor.name), .whole_cols = cols, .file = tensor.data.dtype};
    matrix.first_col = cut.inputs.front().begin, matrix.cols = cut.inputs.front().size();
    matrix.table = IsTable(planned.role), matrix.expert = PlaceOf(planned.role) >= TensorPlace::kExpert;
    for (const IndexRange& outputs : cut.outputs) matrix.rows.push_back({outputs.begin, outputs.size()});
    return matrix;
  }

  Status LoadMatrix(const PlannedTensor& planned, const FileTensor& tensor, Weight* weight) {
    if (IsDummy(tensor)) return Keep(tensor, backend_.MakeRandomWeight(DummyMatrix(planned, tensor)), weight);
    HostTensor host = tensor.data;
    std::vector<std::byte> copy;
    const auto element_bytes = static_cast<size_t>(StorageBytes(host.dtype, Traits(host.dtype).block_elements));
    if (planned.transposed) {
      if (IsQuantized(host.dtype)) {
        return InvalidArgument(fmt::format("tensor '{}' is quantised but must be transposed", tensor.name));
      }
      copy = Transposed(host);
      host = {host.dtype, host.cols, host.rows, copy};
    } else if (!IsQuantized(host.dtype) && reinterpret_cast<uintptr_t>(host.bytes.data()) % element_bytes != 0) {
      // Safetensors data may be unaligned.
      copy.assign(host.bytes.begin(), host.bytes.end());
      host.bytes = copy;
    }
    if (planned.order != RowOrder::kPlain) {
      copy = RowsOf(host, RowsInOrder(planned.order, spec_, host.rows));
      host.bytes = copy;
    }
    if (!host.order.empty() && (planned.role == TensorRole::kEmbedding || planned.role == TensorRole::kPositions)) {
      return InvalidArgument(
          fmt::format("tensor '{}': act-order columns (GPTQ desc_act) are not supported here", tensor.name));
    }
    RETURN_IF_ERROR(Take(planned, &host, &copy));
    host.table = IsTable(planned.role);
    host.expert = PlaceOf(planned.role) >= TensorPlace::kExpert;
    return Keep(tensor, backend_.LoadWeight(host), weight);
  }

  Status Keep(const FileTensor& tensor, Result<Weight> loaded, Weight* weight) {
    if (!loaded.ok()) {
      return Status(loaded.status().code(), fmt::format("tensor '{}': {}", tensor.name, loaded.status().message()));
    }
    *weight = std::move(*loaded);
    weights_.bytes += static_cast<int64_t>(weight->data.bytes() + weight->scales.bytes() + weight->order.bytes());
    if (HasGroupScales(weight->dtype)) weights_.kept = DType::kBlockQuant4;
    // On a CPU, too: caches from E4M3 that was rounded to 16 bits at load must not match.
    const bool one_byte = HasRowScales(weight->dtype) && !HasRowScales(backend_.weight_dtype());
    if (one_byte || weight->dtype == DType::kScaledE4M3) weights_.kept = DType::kScaledE4M3;
    return Status::Ok();
  }

  bool IsDummy(const FileTensor& tensor) const { return seed_ && tensor.data.bytes.empty(); }
  Result<std::vector<float>> ValuesOf(const FileTensor& tensor) const {
    if (!IsDummy(tensor)) return ToFloats(tensor.name, tensor.data);
    const int64_t count = tensor.data.rows * tensor.data.cols;
    return RandomValues({.seed = SeedOf(*seed_, tensor.name), .whole_cols = count, .rows = {{0, 1}}, .cols = count});
  }

  /// The rank's part of a tensor's values, given that each of its outputs has `cols` values.
  Result<std::vector<float>> OwnValues(const PlannedTensor& planned, const FileTensor& tensor, int64_t cols = 1) const {
    ASSIGN_OR_RETURN(std::vector<float> values, ValuesOf(tensor));
    const TensorCut cut = CutOf(shard_, spec_, planned, std::ssize(values) / cols, cols);
    if (cut.rows() * cols == std::ssize(values)) return values;
    std::vector<float> own;
    for (const IndexRange& part : cut.outputs) {
      own.insert(own.end(), values.begin() + part.begin * cols, values.begin() + part.end * cols);
    }
    return own;
  }

  /// (values + offset) * scale
  Status LoadVector(const PlannedTensor& planned, const FileTensor& tensor, DeviceVector* vector, float offset,
                    float scale) {
    ASSIGN_OR_RETURN(std::vector<float> values, OwnValues(planned, tensor));
    for (float& value : values) value = (value + offset) * scale;
    return Upload(values, vector);
  }
  Status LoadNorm(const PlannedTensor& planned, const FileTensor& tensor, DeviceVector* weight, float scale,
                  float offset) {
    if (!IsDummy(tensor)) return LoadVector(planned, tensor, weight, offset, scale);
    const TensorCut cut = CutOf(shard_, spec_, planned, tensor.data.rows * tensor.data.cols, 1);
    return Upload(std::vector<float>(static_cast<size_t>(cut.rows()), scale), weight);
  }
  /// Channels of the convolution [n, kernel]; when all parts are loaded, uploads [kernel, channels].
  Status LoadConvolution(const PlannedTensor& planned, const FileTensor& tensor, DeviceVector* vector) {
    ASSIGN_OR_RETURN(const std::vector<float> values, OwnValues(planned, tensor, spec_.recurrence.kernel));
    std::vector<float>& all = joined_[vector];
    all.insert(all.end(), values.begin(), values.end());
    const auto channels = static_cast<size_t>(own_.recurrence.channels()),
               kernel = static_cast<size_t>(spec_.recurrence.kernel);
    if (all.size() < channels * kernel) return Status::Ok();
    std::vector<float> out(all.size());
    for (size_t i = 0; i < out.size(); ++i) out[i % kernel * channels + i / kernel] = all[i];
    return Upload(out, vector);
  }
  /// -e^v of each stored value, or the value itself; one value per head is that of all its decays.
  Status LoadRate(const PlannedTensor& planned, const FileTensor& tensor, DeviceVector* vector) {
    ASSIGN_OR_RETURN(std::vector<float> values, OwnValues(planned, tensor));
    for (float& value : values) {
      if (!spec_.stored_rates) value = static_cast<float>(-std::exp(static_cast<double>(value)));
    }
    const std::vector<float> heads = values;
    values.resize(static_cast<size_t>(own_.recurrence.decays()));
    const size_t decays = values.size() / heads.size();  // of a head
    for (size_t i = 0; i < values.size(); ++i) values[i] = heads[i / decays];
    return Upload(values, vector);
  }
  /// The norm of queries or of keys. After the rotation, the norm itself has weights of one, and the product of both
  /// norms' weights is a factor of the rotated queries: scores are products of both.
  Status LoadHeadNorm(const PlannedTensor& planned, const FileTensor& tensor, DeviceVector* weight,
                      LayerWeights& layer) {
    if (spec_.qk_norm != QkNorm::kRotatedHeads) return LoadNorm(planned, tensor, weight, 1, spec_.norm_offset);
    std::vector<float> values(static_cast<size_t>(spec_.head_dim), 1.0f);
    RETURN_IF_ERROR(Upload(values, weight));
    if (!IsDummy(tensor)) {
      ASSIGN_OR_RETURN(values, ValuesOf(tensor));
    }
    std::vector<float>& product = joined_[&layer.query_weights];
    if (product.empty()) {
      product = std::move(values);
      return Status::Ok();
    }
    std::ranges::transform(product, values, product.begin(), std::multiplies());
    return Upload(product, &layer.query_weights);
  }
  /// Splits a matrix [H (plain + value), rank] by heads into a part for keys, transposed, and one for values. Blocks of
  /// quantized keys do not survive the transposition: these become float32.
  Status LoadLatentUp(const FileTensor& tensor, LatentWeights& latent) {
    const LatentAttention& sizes = spec_.latent;
    const int64_t rows = sizes.plain + sizes.value;
    const IndexRange heads = shard_.Heads(spec_.heads, spec_.kv_heads).heads;
    if (IsDummy(tensor)) {
      const auto make = [&](const char* part, int64_t outputs, int64_t inputs, Weight* weight) {
        return Keep(tensor,
                    backend_.MakeRandomWeight({.seed = SeedOf(*seed_, tensor.name + part),
                                               .whole_cols = inputs,
                                               .rows = {{heads.begin * outputs, heads.size() * outputs}},
                                               .cols = inputs}),
                    weight);
      };
      RETURN_IF_ERROR(make(".k", sizes.rank, sizes.plain, &latent.key_up));
      return make(".v", sizes.value, sizes.rank, &latent.value_up);
    }
    if (!tensor.data.order.empty()) {
      return InvalidArgument(
          fmt::format("tensor '{}': act-order columns (GPTQ desc_act) are not supported here", tensor.name));
    }
    std::vector<int64_t> of_keys, of_values;  // rows
    for (int64_t row = heads.begin * rows; row < heads.end * rows; ++row) {
      (row % rows < sizes.plain ? of_keys : of_values).push_back(row);
    }
    ASSIGN_OR_RETURN(const std::vector<float> keys, TransposedHeads(tensor, of_keys, sizes.plain));
    RETURN_IF_ERROR(Keep(tensor,
                         backend_.LoadWeight({.dtype = DType::kF32,
                                              .rows = heads.size() * sizes.rank,
                                              .cols = sizes.plain,
                                              .bytes = std::as_bytes(std::span(keys))}),
                         &latent.key_up));
    const std::vector<std::byte> values = RowsOf(tensor.data, of_values);
    HostTensor host = tensor.data;
    host.rows = std::ssize(of_values), host.bytes = values;
    return Keep(tensor, backend_.LoadWeight(host), &latent.value_up);
  }
  Status FinalNorm(const FileTensor& tensor) {
    const float offset = spec_.plain_final_norm ? 0 : spec_.norm_offset;
    return LoadNorm({.role = TensorRole::kFinalNorm}, tensor, &weights_.final_norm, spec_.logit_scale, offset);
  }
  /// Norms of queries and keys without weights.
  Status FillHeadNorms(int64_t layer, LayerWeights* weights) {
    if (!spec_.Layer(layer).head_norms) return Status::Ok();
    const std::vector<float> ones(static_cast<size_t>(spec_.KvSizes(layer).head_dim), 1.0f);
    RETURN_IF_ERROR(Upload(ones, &weights->query_norm));
    return Upload(ones, &weights->key_norm);
  }
  /// Mamba-2's columns: gate, values, keys, queries, rates.
  Status FillRecurrentFactors(DeviceVector* vector) {
    const RecurrenceShape& sizes = spec_.recurrence;
    const int64_t columns[] = {sizes.values(), sizes.values(), sizes.keys(), sizes.keys(), sizes.value_heads};
    std::vector<float> all;
    for (size_t part = 0; part < std::size(columns); ++part) {
      all.insert(all.end(), static_cast<size_t>(columns[part]), spec_.factors.recurrent_inputs[part]);
    }
    return Upload(all, vector);
  }
  Status Scalar(const FileTensor& tensor, float* value) {
    if (IsDummy(tensor)) return Status::Ok();
    ASSIGN_OR_RETURN(const std::vector<float> values, ValuesOf(tensor));
    *value = values.front();
    return Status::Ok();
  }
  /// offset + softplus of the stored value.
  Status XieluSlope(const FileTensor& tensor, float offset, float* slope) {
    ASSIGN_OR_RETURN(const std::vector<float> values, ValuesOf(tensor));
    *slope = offset + std::log1p(std::exp(values.front()));
    return Status::Ok();
  }
  /// Weight and bias of a norm that the file lacks.
  Status FillNorm(DeviceVector* weight, DeviceVector* bias, float scale) {
    const auto width = static_cast<size_t>(spec_.hidden);
    if (!spec_.norm_weights) RETURN_IF_ERROR(Upload(std::vector<float>(width, scale), weight));
    if (spec_.norm == NormKind::kRms || spec_.norm_biases) return Status::Ok();
    return Upload(std::vector<float>(width, 0.0f), bias);
  }

  // A part of a bias with `total` values; uploads when all parts are loaded.
  Status LoadConcatenated(const PlannedTensor& planned, const FileTensor& tensor, int64_t total, DeviceVector* vector) {
    ASSIGN_OR_RETURN(std::vector<float> values, ValuesOf(tensor));
    if (planned.order != RowOrder::kPlain) {
      const std::vector<float> file = values;
      const std::vector<int64_t> rows = RowsInOrder(planned.order, spec_, static_cast<int64_t>(file.size()));
      std::ranges::transform(rows, values.begin(), [&](int64_t row) { return file[static_cast<size_t>(row)]; });
    }
    const TensorCut cut = CutOf(shard_, spec_, planned, std::ssize(values), 1);
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
  const ModelSpec own_;    // the rank's part
  const Shard& shard_;
  const std::optional<uint64_t> seed_;
  Weights weights_;
  std::map<const DeviceVector*, std::vector<float>> joined_;
};

}  // namespace

Status CheckTensors(const NetworkPlan& plan, std::span<const FileTensor> tensors,
                    std::span<const std::pair<std::string, std::string>> unsupported) {
  TensorTable table;
  for (const FileTensor& tensor : tensors) {
    if (!table.emplace(tensor.name, &tensor).second) {
      return Corruption(fmt::format("tensor '{}' occurs twice", tensor.name));
    }
  }
  return CheckPlan(plan, table, unsupported);
}

namespace {

/// A tensor that was read for the digest.
struct ReadTensor {
  FileTensor tensor;
  std::vector<std::byte> joined;  // its bytes, if the file has them in parts
  Status status;
};

}  // namespace

Result<Weights> LoadWeights(const NetworkPlan& plan, std::span<const FileTensor> tensors, const Shard& shard,
                            Backend& backend, Digest* digest) {
  const TensorTable table = TableOf(tensors);
  Loader loader(backend, plan.spec, shard);
  if (digest != nullptr) AddSpec(plan.spec, digest);
  // While the backend takes a tensor, another thread reads the next one.
  const auto read = [&](size_t i) {
    ReadTensor next;
    next.tensor = Whole(*table.at(plan.tensors[i].name), &next.joined);
    if (digest != nullptr) next.status = DigestTensor(next.tensor, digest);
    return next;
  };
  std::future<ReadTensor> next;
  for (size_t i = 0; i < plan.tensors.size(); ++i) {
    const ReadTensor current = i == 0 ? read(0) : next.get();
    if (i + 1 < plan.tensors.size()) next = std::async(read, i + 1);
    RETURN_IF_ERROR(current.status);
    RETURN_IF_ERROR(loader.Load(plan.tensors[i], current.tensor));
  }
  return loader.Finish();
}

Result<Weights> MakeWeights(const NetworkPlan& plan, uint64_t seed, const Shard& shard, Backend& backend,
                            Digest* digest) {
  Loader loader(backend, plan.spec, shard, seed);
  if (digest != nullptr) {
    AddSpec(plan.spec, digest);
    digest->AddText(plan.dummy_type == DType::kF32 ? "random weights" : "random weights in E4M3");
    digest->AddNumber(static_cast<int64_t>(seed));
  }
  for (const PlannedTensor& planned : plan.tensors) {
    FileTensor tensor{.name = planned.name, .shape = planned.shape};
    tensor.data = {.dtype = plan.dummy_type, .rows = 1, .cols = planned.shape.back()};
    for (size_t i = 0; i + 1 < planned.shape.size(); ++i) tensor.data.rows *= planned.shape[i];
    RETURN_IF_ERROR(loader.Load(planned, tensor));
  }
  return loader.Finish();
}

}  // namespace ringside
