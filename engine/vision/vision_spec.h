// A vision tower as data: how pictures are resized and normalised, the transformer that encodes patches, the projector
// to the text network's hidden size, and the tokens around the rows. No weights. Plain data.
#pragma once

#include <array>
#include <cstdint>
#include <iterator>
#include <string>
#include <vector>

#include "engine/families/model_spec.h"
#include "kernels/activation.h"
#include "kernels/rope_pairs.h"

namespace ringside {

enum class VisionPositions {
  kLearned,      // one row per patch of a square picture, added to the embeddings (CLIP, SigLIP)
  kAxialRotary,  // a head's frequencies alternate between row and column of the patch (Pixtral)
  kSplitRotary   // half of a head's frequencies for the row, the same ones again for the column (Qwen2-VL)
};

enum class Resampling { kBilinear, kBicubic };

/// How a picture is resized, as by the family's image processor.
enum class PictureFit {
  kLongestEdge,  // down to `edge` at most; both sides rounded up to multiples of a token's pixels (Pixtral)
  kCrop,         // the shorter side to `edge`, then the square in the middle (CLIP)
  kSquare,       // both sides to `edge` (Gemma 3)
  kArea,         // each side rounded to a token's pixels; reduced or enlarged to an area within limits (Qwen2-VL)
};

struct VisionPreprocessing {
  PictureFit fit = PictureFit::kLongestEdge;
  Resampling resampling = Resampling::kBicubic;
  int64_t edge = 0;                                                 // pixels
  int64_t least_pixels = 0, most_pixels = 0;                        // kArea: of a picture
  std::array<float, 3> mean{0.48145466f, 0.4578275f, 0.40821073f};  // by channel, of values 0 to 1: CLIP's
  std::array<float, 3> deviation{0.26862954f, 0.26130258f, 0.27577711f};
};

/// Spellings of special tokens; "" = none.
struct ImageMarkers {
  std::string placeholder;  // "": its id is VisionSpec::placeholder
  std::string around;       // text before `begin` and after `end`, tokenized with the text there
  std::string begin;        // before the first row
  std::string row_end;      // after each row of tokens, except the last
  std::string end;          // after the last row
};

struct VisionSpec {
  std::string family;  // model_type of the tower
  int64_t layers = 0;  // that are computed
  int64_t hidden = 0, heads = 0, head_dim = 0, ffn = 0;
  int64_t patch = 0;        // pixels of a patch's side
  int64_t text_hidden = 0;  // columns of the result

  NormKind norm = NormKind::kRms;
  float norm_eps = 1e-5f;
  bool gated = true;        // activation(gate) * up
  bool quick_gelu = false;  // x / (1 + e^(-1.702 x)), instead of `activation`
  Activation activation = Activation::kGeluErf;
  bool biases = false;  // of attention and MLP

  VisionPositions positions = VisionPositions::kAxialRotary;
  double rope_theta = 10000;
  RopePairs rope_pairs = RopePairs::kHalves;
  int64_t grid = 0;                   // patches of a side of the largest picture; unused with kArea
  int64_t frames = 1;                 // of a patch's weights: a picture is a film of equal frames (Qwen2-VL)
  int64_t window = 0;                 // tokens of a side of a window, beyond which no patch sees; 0: none (Qwen2.5-VL)
  std::vector<int64_t> whole_layers;  // layers without windows
  bool class_token = false;           // a learned row before the patches, which is dropped at the end
  int64_t table_side = 0;  // patches of a side of learned positions, which are interpolated; 0: none (Qwen3-VL)
  std::vector<int64_t> deep_layers;  // ascending; their outputs are projected too (Qwen3-VL)

  // Projector: an optional norm, an optional map of merge x merge patches to one, linear, activation, linear.
  int64_t merge = 1;      // patches of a token's side
  bool joins = false;     // the patches of a token are one row of the first linear, after the norm (Qwen2-VL)
  bool averages = false;  // the mean of a token's patches, then the norm, instead of norm and map (Gemma 3)
  bool projector_norm = false, projector_biases = false;
  bool projector_mlp = true;        // activation and second linear
  float projector_norm_offset = 0;  // added to the norm's stored weights
  float projector_eps = 1e-5f;
  Activation projector_activation = Activation::kGeluErf;

  VisionPreprocessing preprocessing;
  bool grids = false;        // its tokens have positions of rows and columns in the text network (image_grid.h)
  bool see_all = false;      // the text network's tokens of a picture see each other in both directions
  int64_t placeholder = -1;  // id of the token that a chat template emits
  ImageMarkers markers;

  /// Size of a head in the tower's workspace, where zeros follow its dimensions: one with fast kernels.
  int64_t padded_head() const { return head_dim > 64 && head_dim < 80 ? 80 : head_dim; }
  /// Pixels of a token's side.
  int64_t token_pixels() const { return patch * merge; }
  int64_t patch_values() const { return 3 * patch * patch; }
  /// Columns of the projector's first linear, and of its result.
  int64_t joined() const { return joins ? hidden * merge * merge : hidden; }
  int64_t projected() const { return joins ? joined() : text_hidden; }
  /// Columns of an image's row: the input of the text network, and the parts for its first layers.
  int64_t row_columns() const { return (1 + std::ssize(deep_layers)) * text_hidden; }
  /// Patches and tokens of the largest picture.
  int64_t most_patches() const {
    return preprocessing.fit == PictureFit::kArea ? preprocessing.most_pixels / (patch * patch) : grid * grid;
  }
  int64_t most_tokens() const { return most_patches() / (merge * merge); }
  /// Patches of a window, and the largest number of windows of a picture.
  int64_t window_patches() const { return window * window * merge * merge; }
  int64_t most_windows() const;
  bool HasWindows(int64_t layer) const;
};

/// Size in pixels after resizing and cropping.
struct PictureSize {
  int64_t width = 0, height = 0;
  friend bool operator==(const PictureSize&, const PictureSize&) = default;
};
PictureSize FitPicture(const VisionSpec& spec, int64_t width, int64_t height);

}  // namespace ringside
