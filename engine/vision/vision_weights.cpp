#include "engine/vision/vision_weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/check.h"
#include "kernels/formats/file_formats.h"

namespace ringside {
namespace {

class VisionLoader {
 public:
  VisionLoader(const VisionSpec& spec, Backend& backend) : spec_(spec), backend_(backend) {
    weights_.layers.resize(static_cast<size_t>(spec.layers));
    weights_.deep.resize(spec.deep_layers.size());
    for (VisionLayer& layer : weights_.layers) {
      layer.qkv.resize(3);
      layer.mlp_in.resize(spec.gated ? 2 : 1);
    }
  }

  Status Load(const PlannedVisionTensor& planned, const FileTensor& tensor) {
    if (IsQuantized(tensor.data.dtype) || tensor.packed != nullptr || !tensor.pieces.empty()) {
      return InvalidArgument(
          fmt::format("tensor '{}' is quantized, which is not supported in a vision tower", tensor.name));
    }
    if (planned.role == VisionRole::kPositions && spec_.table_side > 0) {
      weights_.position_table = Values(tensor);
      return Status::Ok();
    }
    if (planned.role == VisionRole::kPatchMore) {
      patch_more_ = Values(tensor);
      return Status::Ok();
    }
    VisionLayer none;
    VisionProjector no_deep;
    const auto index = static_cast<size_t>(planned.layer);  // past all without a layer
    VisionLayer& layer = index < weights_.layers.size() ? weights_.layers[index] : none;
    VisionProjector& deep = index < weights_.deep.size() ? weights_.deep[index] : no_deep;
    if (planned.role == VisionRole::kQkv) layer.qkv.resize(1);
    if (const auto matrix = MatrixOf(planned.role, layer, deep); matrix != nullptr)
      return LoadMatrix(planned.role, tensor, matrix);
    if (VisionVector* joined = JoinedOf(planned.role, layer); joined != nullptr) {
      return LoadJoined(tensor, joined == &layer.qkv_bias, joined);
    }
    std::vector<float> values = Values(tensor);
    if (planned.role == VisionRole::kProjectorNorm) {
      for (float& value : values) value += spec_.projector_norm_offset;
    }
    if (planned.role == VisionRole::kQkvBias) values = Padded(values, spec_.head_dim, spec_.padded_head());
    return Upload(values, VectorOf(planned.role, layer, deep));
  }

  VisionWeights Finish() {
    backend_.Synchronize();
    return std::move(weights_);
  }

 private:
  template <class Member>
  struct Place {
    VisionRole role;
    Member* member;
  };
  template <class Member>
  static Member* Find(std::initializer_list<Place<Member>> places, VisionRole role) {
    const auto found = std::ranges::find(places, role, &Place<Member>::role);
    return found == places.end() ? nullptr : found->member;
  }

  Weight* MatrixOf(VisionRole role, VisionLayer& layer, VisionProjector& deep) {
    VisionProjector& projector = weights_.projector;
    return Find<Weight>({{VisionRole::kPatch, &weights_.patch},
                         {VisionRole::kPositions, &weights_.positions},
                         {VisionRole::kQkv, &layer.qkv.data()[0]},
                         {VisionRole::kQuery, &layer.qkv.data()[0]},
                         {VisionRole::kKey, &layer.qkv.data()[1]},
                         {VisionRole::kValue, &layer.qkv.data()[2]},
                         {VisionRole::kOut, &layer.out},
                         {VisionRole::kGate, &layer.mlp_in.data()[0]},
                         {VisionRole::kUp, layer.mlp_in.data() + std::max<ptrdiff_t>(0, std::ssize(layer.mlp_in) - 1)},
                         {VisionRole::kDown, &layer.mlp_out},
                         {VisionRole::kMerger, &weights_.merger},
                         {VisionRole::kFirst, &projector.first},
                         {VisionRole::kProjection, &projector.first},
                         {VisionRole::kSecond, &projector.second},
                         {VisionRole::kDeepFirst, &deep.first},
                         {VisionRole::kDeepSecond, &deep.second}},
                        role);
  }

  /// A vector that consists of the parts of several tensors, which are loaded in order.
  VisionVector* JoinedOf(VisionRole role, VisionLayer& layer) {
    return Find<VisionVector>({{VisionRole::kQueryBias, &layer.qkv_bias},
                               {VisionRole::kKeyBias, &layer.qkv_bias},
                               {VisionRole::kValueBias, &layer.qkv_bias},
                               {VisionRole::kGateBias, &layer.mlp_in_bias},
                               {VisionRole::kUpBias, &layer.mlp_in_bias}},
                              role);
  }

  VisionVector* VectorOf(VisionRole role, VisionLayer& layer, VisionProjector& deep) {
    VisionProjector& projector = weights_.projector;
    VisionVector* found = Find<VisionVector>({{VisionRole::kPatchBias, &weights_.patch_bias},
                                              {VisionRole::kClass, &weights_.class_row},
                                              {VisionRole::kInputNorm, &weights_.input_norm},
                                              {VisionRole::kInputNormBias, &weights_.input_norm_bias},
                                              {VisionRole::kNorm, &layer.norm},
                                              {VisionRole::kNormBias, &layer.norm_bias},
                                              {VisionRole::kQkvBias, &layer.qkv_bias},
                                              {VisionRole::kOutBias, &layer.out_bias},
                                              {VisionRole::kMlpNorm, &layer.mlp_norm},
                                              {VisionRole::kMlpNormBias, &layer.mlp_norm_bias},
                                              {VisionRole::kDownBias, &layer.mlp_out_bias},
                                              {VisionRole::kOutputNorm, &weights_.output_norm},
                                              {VisionRole::kOutputNormBias, &weights_.output_norm_bias},
                                              {VisionRole::kProjectorNorm, &projector.norm},
                                              {VisionRole::kProjectorNormBias, &projector.norm_bias},
                                              {VisionRole::kFirstBias, &projector.first_bias},
                                              {VisionRole::kSecondBias, &projector.second_bias},
                                              {VisionRole::kDeepNorm, &deep.norm},
                                              {VisionRole::kDeepNormBias, &deep.norm_bias},
                                              {VisionRole::kDeepFirstBias, &deep.first_bias},
                                              {VisionRole::kDeepSecondBias, &deep.second_bias}},
                                             role);
    CHECK(found != nullptr);
    return found;
  }

  static std::vector<float> Values(const FileTensor& tensor) {
    std::vector<float> values(static_cast<size_t>(tensor.data.rows * tensor.data.cols));
    for (int64_t row = 0; row < tensor.data.rows; ++row) {
      ReadFileRow(tensor.data, row, values.data() + row * tensor.data.cols);
    }
    return values;
  }

  Status Upload(const std::vector<float>& values, VisionVector* to) {
    const size_t bytes = values.size() * sizeof(float);
    ASSIGN_OR_RETURN(to->buffer, backend_.Allocate(bytes));
    backend_.CopyToDevice(to->buffer.data(), values.data(), bytes);
    backend_.Synchronize();
    weights_.bytes += static_cast<int64_t>(bytes);
    return Status::Ok();
  }

  /// `heads`: of queries, keys and values; else of an MLP with a gate or without.
  Status LoadJoined(const FileTensor& tensor, bool heads, VisionVector* to) {
    const size_t parts = heads ? 3 : spec_.gated ? 2 : 1;
    std::vector<float>& all = joined_[to];
    const std::vector<float> values = Values(tensor);
    all.insert(all.end(), values.begin(), values.end());
    if (all.size() < parts * values.size()) return Status::Ok();
    const std::vector<float> whole = std::exchange(all, {});
    return Upload(heads ? Padded(whole, spec_.head_dim, spec_.padded_head()) : whole, to);
  }

  Status LoadMatrix(VisionRole role, const FileTensor& tensor, Weight* weight) {
    HostTensor host = tensor.data;
    host.rows = tensor.shape.front();
    host.cols = tensor.data.rows * tensor.data.cols / host.rows;
    host.table = role == VisionRole::kPositions;
    host.adapter = true;
    std::vector<std::byte> aligned;
    std::vector<float> made;
    if (role == VisionRole::kPatch) {
      std::vector<float> patch = SumOfFrames(Values(tensor));
      for (size_t i = 0; i < patch_more_.size(); ++i) patch[i] += patch_more_[i];
      made = Padded(patch, spec_.patch_values(), PatchColumns(spec_));
      host.cols = PatchColumns(spec_);
    } else if (role == VisionRole::kProjection) {
      made = Transposed(Values(tensor), host.cols);
      std::swap(host.rows, host.cols);
    } else if (role == VisionRole::kMerger) {
      made = ByPatch(Values(tensor), host.cols);
    } else if (const auto [size, padded] = HeadSizes(role); size != padded) {
      // The outputs of the projections to queries, keys and values, and the inputs of the one after attention.
      const bool inputs = role == VisionRole::kOut;
      const int64_t columns = inputs ? 1 : host.cols;
      made = Padded(Values(tensor), size * columns, padded * columns);
      int64_t& heads = inputs ? host.cols : host.rows;
      heads = heads / size * padded;
    } else {
      aligned.assign(host.bytes.begin(), host.bytes.end());  // safetensors data may be unaligned
      host.bytes = aligned;
    }
    if (!made.empty()) host.dtype = DType::kF32, host.bytes = std::as_bytes(std::span(made));
    auto loaded = backend_.LoadWeight(host);
    if (!loaded.ok()) {
      return Status(loaded.status().code(), fmt::format("tensor '{}': {}", tensor.name, loaded.status().message()));
    }
    *weight = std::move(*loaded);
    weights_.bytes += static_cast<int64_t>(weight->data.bytes() + weight->scales.bytes());
    return Status::Ok();
  }

  /// The size of a head in the file and in the workspace, for matrices with heads.
  std::pair<int64_t, int64_t> HeadSizes(VisionRole role) const {
    constexpr VisionRole kWithHeads[] = {VisionRole::kQuery, VisionRole::kKey, VisionRole::kValue, VisionRole::kQkv,
                                         VisionRole::kOut};
    if (std::ranges::find(kWithHeads, role) == std::end(kWithHeads)) return {1, 1};
    return {spec_.head_dim, spec_.padded_head()};
  }

  static std::vector<float> Padded(const std::vector<float>& values, int64_t cols, int64_t padded) {
    const auto rows = std::ssize(values) / cols;
    std::vector<float> out(static_cast<size_t>(rows * padded));
    for (int64_t row = 0; row < rows; ++row) std::copy_n(values.data() + row * cols, cols, out.data() + row * padded);
    return out;
  }

  /// The frames of a picture are equal, so that their weights can be added.
  std::vector<float> SumOfFrames(const std::vector<float>& values) const {
    const auto pixels = static_cast<size_t>(spec_.patch * spec_.patch), frames = static_cast<size_t>(spec_.frames);
    std::vector<float> out(values.size() / frames);
    for (size_t i = 0; i < values.size(); ++i) out[i / (frames * pixels) * pixels + i % pixels] += values[i];
    return out;
  }

  static std::vector<float> Transposed(const std::vector<float>& values, int64_t cols) {
    const auto columns = static_cast<size_t>(cols), rows = values.size() / columns;
    std::vector<float> out(values.size());
    for (size_t i = 0; i < values.size(); ++i) out[i % columns * rows + i / columns] = values[i];
    return out;
  }

  /// The columns of the merger in the order in which a token's patches are stored: patch by patch.
  std::vector<float> ByPatch(const std::vector<float>& values, int64_t cols) const {
    const int64_t patches = spec_.merge * spec_.merge;
    std::vector<float> out(values.size());
    for (size_t i = 0; i < values.size(); ++i) {
      const int64_t row = static_cast<int64_t>(i) / cols, column = static_cast<int64_t>(i) % cols;
      const int64_t channel = column / patches, patch = column % patches;
      out[static_cast<size_t>(row * cols + patch * spec_.hidden + channel)] = values[i];
    }
    return out;
  }

  const VisionSpec& spec_;
  Backend& backend_;
  VisionWeights weights_;
  std::map<VisionVector*, std::vector<float>> joined_;
  std::vector<float> patch_more_;  // VisionRole::kPatchMore
};

}  // namespace

Result<VisionWeights> LoadVisionWeights(const VisionPlan& plan, std::span<const FileTensor> tensors, Backend& backend) {
  CHECK_EQ(tensors.size(), plan.tensors.size());
  VisionLoader loader(plan.spec, backend);
  for (size_t i = 0; i < tensors.size(); ++i) {
    CHECK(tensors[i].shape == plan.tensors[i].shape);
    RETURN_IF_ERROR(loader.Load(plan.tensors[i], tensors[i]));
  }
  return loader.Finish();
}

}  // namespace ringside
