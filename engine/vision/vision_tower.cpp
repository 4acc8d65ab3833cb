#include "engine/vision/vision_tower.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/check.h"
#include "engine/vision/position_table.h"

namespace ringside {
namespace {

constexpr float kQuickGelu = 1.702f;
constexpr uint64_t kSteps = uint64_t{1} << 63;  // AttentionArgs::step, apart from those of decoders

}  // namespace

VisionTower::VisionTower(Backend& backend, const VisionSpec& spec, VisionWeights weights)
    : backend_(backend), spec_(spec), weights_(std::move(weights)) {
  const DType dtype = backend.activation_dtype();
  patch_values_ = {.dtype = dtype, .columns = PatchColumns(spec)};
  stream_ = {.columns = spec.hidden};
  normed_ = {.dtype = dtype, .columns = spec.hidden};
  qkv_ = {.dtype = dtype, .columns = 3 * spec.heads * spec.padded_head()};
  attended_ = {.dtype = dtype, .columns = spec.heads * spec.padded_head()};
  mlp_in_ = {.dtype = dtype, .columns = (spec.gated ? 2 : 1) * spec.ffn};
  mlp_mid_ = {.dtype = dtype, .columns = spec.gated ? spec.ffn : 0};
  projector_.merged = {.dtype = dtype, .columns = spec.projector_norm && !spec.joins ? spec.hidden : 0};
  projector_.means = {.columns = spec.averages ? spec.hidden : 0};
  projector_.inner = {.dtype = dtype, .columns = spec.projector_mlp ? spec.projected() : 0};
  projector_.out = {.dtype = dtype, .columns = spec.row_columns()};
}

Status VisionTower::Reserve() {
  const int64_t most = most_patches() + (spec_.class_token ? 1 : 0),
                tokens = most_patches() / (spec_.merge * spec_.merge);
  const auto reserve = [&](Scratch& scratch, int64_t rows) {
    if (scratch.columns == 0) return Status::Ok();
    const int64_t bytes = StorageBytes(scratch.dtype, rows * scratch.columns);
    ASSIGN_OR_RETURN(scratch.memory, backend_.Allocate(static_cast<size_t>(bytes)));
    return Status::Ok();
  };
  for (Scratch* scratch : {&patch_values_, &stream_, &normed_, &qkv_, &attended_, &mlp_in_, &mlp_mid_}) {
    RETURN_IF_ERROR(reserve(*scratch, most));
  }
  for (Scratch* scratch : {&projector_.merged, &projector_.means, &projector_.inner, &projector_.out})
    RETURN_IF_ERROR(reserve(*scratch, tokens));
  const int64_t windows = spec_.window > 0 ? spec_.most_windows() * CacheOf(spec_.window_patches()).slab_bytes() : 0;
  ASSIGN_OR_RETURN(cache_, backend_.Allocate(static_cast<size_t>(std::max(CacheOf(most).slab_bytes(), windows))));
  return Status::Ok();
}

KvShape VisionTower::CacheOf(int64_t rows) const {
  return {.layers = 1,
          .kv_heads = spec_.heads,
          .head_dim = spec_.padded_head(),
          .dtype = backend_.activation_dtype(),
          .pinned_tiles = KvShape::PinnedTiles(rows),
          .ring_tiles = 1};
}

void VisionTower::Norm(Tensor x, const VisionVector& weight, const VisionVector& bias, Tensor y) const {
  if (spec_.norm == NormKind::kRms)
    backend_.RmsNorm(x, weight.data(), spec_.norm_eps, y);
  else
    backend_.LayerNorm(x, weight.data(), bias.data(), spec_.norm_eps, y);
}

// Axial RoPE (Pixtral, Agrawal et al. 2024): of the head's frequencies, the even ones turn by the patch's row and the
// odd ones by its column. Or both turn by the even ones (Qwen2-VL).
void VisionTower::ComputeAngles(const std::vector<PatchPosition>& positions) {
  host_.cosines.clear(), host_.sines.clear();
  if (spec_.positions == VisionPositions::kLearned) return;
  const int64_t odd = spec_.positions == VisionPositions::kAxialRotary ? 1 : 0, half = spec_.head_dim / 4;
  int64_t most = 0;
  for (const PatchPosition& at : positions) most = std::max({most, at.row, at.column});
  // [places, half] of rows, then of columns.
  std::vector<float> cosines, sines;
  for (int64_t offset : {int64_t{0}, odd}) {
    for (int64_t place = 0; place <= most; ++place) {
      for (int64_t i = 0; i < half; ++i) {
        const double turns = std::pow(spec_.rope_theta,
                                      -2.0 * static_cast<double>(2 * i + offset) / static_cast<double>(spec_.head_dim));
        const double angle = static_cast<double>(place) * turns;
        cosines.push_back(static_cast<float>(std::cos(angle)));
        sines.push_back(static_cast<float>(std::sin(angle)));
      }
    }
  }
  const auto add = [&](int64_t place) {
    const auto first = place * half, end = first + half;
    host_.cosines.insert(host_.cosines.end(), cosines.begin() + first, cosines.begin() + end);
    host_.sines.insert(host_.sines.end(), sines.begin() + first, sines.begin() + end);
  };
  for (const PatchPosition& at : positions) {
    add(at.row);
    add(most + 1 + at.column);
  }
}

void VisionTower::Start(const Picture& picture) {
  CHECK(!busy());
  Patches& patches = host_.patches;
  const auto [rows_before, columns_before] = std::pair(patches.rows, patches.columns);
  MakePatches(spec_, picture, patch_values_.dtype, PatchColumns(spec_), &patches);
  patches_ = patches.rows * patches.columns;
  CHECK_LE(patches_, most_patches());
  layer_ = 0, deep_ = 0, ++pictures_;
  const int64_t first = rows() - patches_;
  const Tensor stream = stream_.Rows(rows());
  backend_.CopyToDevice(patch_values_.memory.data(), patches.values.data(), patches.values.size());
  const bool interpolates = spec_.table_side > 0;
  if (interpolates) {
    const bool same = patches.rows == rows_before && patches.columns == columns_before;
    if (!same) InterpolatePositions(weights_.position_table, spec_.table_side, patches, &host_.learned);
    backend_.CopyToDevice(stream.data, host_.learned.data(), host_.learned.size() * sizeof(float));
  }
  const Weight* patch[] = {&weights_.patch};
  backend_.Linear({.x = patch_values_.Rows(patches_),
                   .weights = patch,
                   .bias = weights_.patch_bias.data(),
                   .y = stream.Rows(first, patches_),
                   .accumulate = interpolates});
  if (spec_.class_token) {
    std::vector<float> row(static_cast<size_t>(spec_.hidden));
    backend_.CopyToHost(row.data(), weights_.class_row.data(), row.size() * sizeof(float));
    backend_.Synchronize();
    backend_.CopyToDevice(stream.data, row.data(), row.size() * sizeof(float));
    backend_.Synchronize();
  }
  if (spec_.positions == VisionPositions::kLearned) {
    std::vector<int64_t> places(static_cast<size_t>(first), 0);  // the class token's
    for (const PatchPosition& at : patches.positions) places.push_back(first + at.row * spec_.grid + at.column);
    backend_.AddPositions(weights_.positions, places, stream);
  }
  if (weights_.input_norm.data() != nullptr) Norm(stream, weights_.input_norm, weights_.input_norm_bias, stream);
  ComputeAngles(patches.positions);
  NotePlaces(patches);
  first_live_.assign(static_cast<size_t>(rows()), rows());  // nothing follows the patches
}

int64_t VisionTower::layer_products() const {
  const int64_t heads = spec_.heads * spec_.head_dim,
                weights = 4 * spec_.hidden * heads + (spec_.gated ? 3 : 2) * spec_.hidden * spec_.ffn;
  return rows() * (weights + 2 * (spec_.HasWindows(layer_) ? spec_.window_patches() : rows()) * heads);
}

void VisionTower::NotePlaces(const Patches& patches) {
  order_.windows = patches.windows;
  order_.places.clear();
  const int64_t merge = spec_.merge;
  for (size_t i = 0; spec_.window > 0 && i < patches.positions.size(); i += static_cast<size_t>(merge * merge)) {
    const PatchPosition& first = patches.positions[i];
    order_.places.push_back(first.row / merge * (patches.columns / merge) + first.column / merge);
  }
}

std::vector<AttentionSegment> VisionTower::Segments() const {
  const bool windows = spec_.HasWindows(layer_);
  const KvShape shape = CacheOf(windows ? spec_.window_patches() : rows());
  std::vector<AttentionSegment> segments;
  auto* slab = static_cast<std::byte*>(const_cast<void*>(cache_.data()));
  int64_t first = 0;
  for (const int64_t window : windows ? order_.windows : std::vector<int64_t>{rows()}) {
    segments.push_back(
        {.first_row = first, .rows = window, .pinned = window, .first_live = first_live_.data() + first, .slab = slab});
    first += window;
    slab += shape.slab_bytes();
  }
  return segments;
}

void VisionTower::Attend(const VisionLayer& layer) {
  const int64_t count = rows();
  const Tensor stream = stream_.Rows(count), normed = normed_.Rows(count), qkv = qkv_.Rows(count);
  Norm(stream, layer.norm, layer.norm_bias, normed);
  std::vector<const Weight*> in;
  for (const Weight& weight : layer.qkv) in.push_back(&weight);
  backend_.Linear({.x = normed, .weights = in, .bias = layer.qkv_bias.data(), .y = qkv});
  const std::vector<AttentionSegment> segments = Segments();
  const bool rotates = spec_.positions != VisionPositions::kLearned;
  const Tensor attended = attended_.Rows(count);
  const float *cosines = host_.cosines.data(), *sines = host_.sines.data();
  backend_.Attention({.qkv = qkv,
                      .out = attended,
                      .shape = CacheOf(spec_.HasWindows(layer_) ? spec_.window_patches() : count),
                      .heads = spec_.heads,
                      .rotary = rotates ? spec_.head_dim : 0,
                      .pairs = rotates ? spec_.rope_pairs : RopePairs::kNone,
                      .angles = {cosines, sines, cosines, sines},
                      .scores = {.scale = 1 / std::sqrt(static_cast<float>(spec_.head_dim))},
                      .seen = VisibleKeys::kPinned,
                      .segments = segments,
                      .step = kSteps | pictures_ << 1 | (spec_.HasWindows(layer_) ? 1 : 0)});
  const Weight* out[] = {&layer.out};
  backend_.Linear({.x = attended, .weights = out, .bias = layer.out_bias.data(), .y = stream, .accumulate = true});
}

void VisionTower::Mlp(const VisionLayer& layer) {
  const int64_t count = rows();
  const Tensor stream = stream_.Rows(count), normed = normed_.Rows(count), hidden = mlp_in_.Rows(count);
  Norm(stream, layer.mlp_norm, layer.mlp_norm_bias, normed);
  std::vector<const Weight*> in;
  for (const Weight& weight : layer.mlp_in) in.push_back(&weight);
  backend_.Linear({.x = normed, .weights = in, .bias = layer.mlp_in_bias.data(), .y = hidden});
  Tensor mid = hidden;
  if (spec_.gated) {
    mid = mlp_mid_.Rows(count);
    backend_.MultiplyActivated(hidden, spec_.activation, mid);
  } else if (spec_.quick_gelu) {
    // x / (1 + e^(-a x)) is SiLU(a x) / a.
    backend_.Scale(mid, kQuickGelu);
    backend_.Activate(mid, Activation::kSilu);
    backend_.Scale(mid, 1 / kQuickGelu);
  } else {
    backend_.Activate(mid, spec_.activation);
  }
  const Weight* out[] = {&layer.mlp_out};
  backend_.Linear({.x = mid, .weights = out, .bias = layer.mlp_out_bias.data(), .y = stream, .accumulate = true});
}

bool VisionTower::Advance() {
  CHECK(busy() && layer_ < spec_.layers);
  const VisionLayer& layer = weights_.layers[static_cast<size_t>(layer_)];
  Attend(layer);
  Mlp(layer);
  if (deep_ < spec_.deep_layers.size() && spec_.deep_layers[deep_] == layer_) {
    const VisionProjector& projector = weights_.deep[deep_++];
    const Tensor normed = Joined(normed_.Rows(patches_));
    Norm(Joined(stream_.Rows(patches_)), projector.norm, projector.norm_bias, normed);
    Project(projector, normed, static_cast<int64_t>(deep_));
  }
  return ++layer_ == spec_.layers;
}

Tensor VisionTower::Joined(Tensor x) const {
  const int64_t patches = spec_.merge * spec_.merge, columns = patches * spec_.hidden;
  return {x.dtype, x.data, x.rows / patches, columns, columns};
}

// Done on the host, once per picture.
Tensor VisionTower::Means(Tensor x, int64_t tokens) {
  const auto columns = static_cast<size_t>(spec_.hidden), patches = static_cast<size_t>(x.rows / tokens);
  std::vector<float> values(static_cast<size_t>(x.rows) * columns), means(static_cast<size_t>(tokens) * columns);
  backend_.CopyToHost(values.data(), x.data, values.size() * sizeof(float));
  backend_.Synchronize();
  for (size_t i = 0; i < values.size(); ++i) means[i / columns / patches * columns + i % columns] += values[i];
  for (float& mean : means) mean /= static_cast<float>(patches);
  const Tensor out = projector_.means.Rows(tokens);
  backend_.CopyToDevice(out.data, means.data(), means.size() * sizeof(float));
  backend_.Synchronize();
  return out;
}

void VisionTower::Project(const VisionProjector& projector, Tensor x, int64_t part) {
  const Tensor out = projector_.out.Rows(x.rows).Columns(part * spec_.text_hidden, spec_.text_hidden),
               projected = spec_.projector_mlp ? projector_.inner.Rows(x.rows) : out;
  const Weight *one[] = {&projector.first}, *two[] = {&projector.second};
  backend_.Linear({.x = x, .weights = one, .bias = projector.first_bias.data(), .y = projected});
  if (!spec_.projector_mlp) return;
  backend_.Activate(projected, spec_.projector_activation);
  backend_.Linear({.x = projected, .weights = two, .bias = projector.second_bias.data(), .y = out});
}

ImageRows VisionTower::InOrder(const ImageRows& rows) const {
  ImageRows out(projector_.out.dtype, rows.rows(), projector_.out.columns);
  for (int64_t token = 0; token < rows.rows(); ++token) {
    std::copy_n(rows.Row(token), rows.row_bytes(), out.Row(order_.places[static_cast<size_t>(token)]));
  }
  return out;
}

ImageRows VisionTower::Finish() {
  CHECK(busy() && layer_ == spec_.layers);
  const int64_t tokens = patches_ / (spec_.merge * spec_.merge), first = rows() - patches_;
  Tensor x = stream_.Rows(rows()).Rows(first, patches_);
  if (weights_.output_norm.data() != nullptr) Norm(x, weights_.output_norm, weights_.output_norm_bias, x);
  const VisionProjector& projector = weights_.projector;
  if (spec_.averages) {
    const Tensor means = Means(x, tokens);
    x = projector_.merged.Rows(tokens);
    backend_.RmsNorm(means, projector.norm.data(), spec_.projector_eps, x);
  } else if (spec_.projector_norm) {
    const Tensor normed = normed_.Rows(patches_);
    if (spec_.joins)
      Norm(x, projector.norm, projector.norm_bias, normed);
    else
      backend_.RmsNorm(x, projector.norm.data(), spec_.projector_eps, normed);
    x = Joined(normed);  // the patches of a token are adjacent rows
    if (!spec_.joins) {
      const Weight* merger[] = {&weights_.merger};
      const Tensor merged = projector_.merged.Rows(tokens);
      backend_.Linear({.x = x, .weights = merger, .y = merged});
      x = merged;
    }
  }
  Project(projector, x, 0);
  const Tensor out = projector_.out.Rows(tokens);
  ImageRows rows(out.dtype, tokens, out.cols);
  backend_.CopyToHost(rows.Row(0), out.data, static_cast<size_t>(rows.bytes()));
  backend_.Synchronize();
  if (!order_.places.empty()) rows = InOrder(rows);
  patches_ = 0;
  return rows;
}

}  // namespace ringside
