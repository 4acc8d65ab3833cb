// Encodes pictures: patches to embeddings of the text network. One picture at a time, a few layers per call, so that an
// engine can bound the work of a step. Uses the operations of a decoder; attention is that of an encoder, in which
// every patch sees all others. THREAD: the backend's.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/vision/image_rows.h"
#include "engine/vision/patches.h"
#include "engine/vision/vision_weights.h"
#include "kernels/backend.h"

namespace ringside {

class VisionTower {
 public:
  /// REQUIRES: `backend` outlives it.
  VisionTower(Backend& backend, const VisionSpec& spec, VisionWeights weights);
  /// Allocates the workspace of the largest picture. ERRORS: kOverloaded without memory.
  Status Reserve();

  int64_t weight_bytes() const { return weights_.bytes; }
  bool busy() const { return patches_ > 0; }
  /// Starts a picture. REQUIRES: not busy, Reserve; the picture has tokens (ImageFormat::Tokens).
  void Start(const Picture& picture);
  /// Multiplications of the next layer. REQUIRES: busy.
  int64_t layer_products() const;
  /// Computes one layer. Returns true after the last one. REQUIRES: busy.
  bool Advance();
  /// The rows of the picture; afterwards it is not busy. REQUIRES: Advance has returned true.
  ImageRows Finish();

 private:
  /// Workspace [rows, columns].
  struct Scratch {
    DType dtype = DType::kF32;
    int64_t columns = 0;
    Buffer memory;
    Tensor Rows(int64_t rows, int64_t width = 0) const {
      return {dtype, memory.data(), rows, width == 0 ? columns : width, width == 0 ? columns : width};
    }
  };
  int64_t most_patches() const { return spec_.most_patches(); }
  /// Rows of the stream: patches, after the class token if there is one.
  int64_t rows() const { return patches_ + (spec_.class_token ? 1 : 0); }
  KvShape CacheOf(int64_t rows) const;
  /// Rows that see each other in the current layer, each with a part of the cache.
  std::vector<AttentionSegment> Segments() const;
  void NotePlaces(const Patches& patches);
  void ComputeAngles(const std::vector<PatchPosition>& positions);
  void Norm(Tensor x, const VisionVector& weight, const VisionVector& bias, Tensor y) const;
  void Attend(const VisionLayer& layer);
  void Mlp(const VisionLayer& layer);
  /// Computes a part of the rows of the text network, from x [tokens, projector inputs]. Part 0 is the embedding, the
  /// others are added after layers.
  void Project(const VisionProjector& projector, Tensor x, int64_t part);
  /// The patches of each token as one row, of the stream's or normed rows.
  Tensor Joined(Tensor x) const;
  /// The rows at their tokens' places.
  ImageRows InOrder(const ImageRows& rows) const;
  /// The mean of each token's patches, from x [patches, hidden].
  Tensor Means(Tensor x, int64_t tokens);

  Backend& backend_;
  const VisionSpec spec_;
  const VisionWeights weights_;
  const VisionVector none_;
  Scratch patch_values_, stream_, normed_, qkv_, attended_, mlp_in_, mlp_mid_;
  struct {
    Scratch merged, means, inner, out;
  } projector_;
  Buffer cache_;  // keys and values of the current layer

  int64_t patches_ = 0, layer_ = 0;  // of the current picture
  /// The current picture on the host. The memory is reused: touching new memory takes longer than filling it.
  struct {
    Patches patches;
    std::vector<float> learned;         // [patches, hidden] interpolated positions, which depend on the size alone
    std::vector<float> cosines, sines;  // [rows, head_dim / 2]
  } host_;
  std::vector<int64_t> first_live_;  // AttentionSegment
  struct {
    std::vector<int64_t> windows;  // Patches::windows
    std::vector<int64_t> places;   // by token: its place, row by row; empty if it is the same
  } order_;
  size_t deep_ = 0;        // deep layers that were projected
  uint64_t pictures_ = 0;  // started so far
};

}  // namespace ringside
