// The weights of a model's files in another format's layout: fused or split, transposed, with reordered rows. One
// tensor at a time, in float32, which represents every type's values. THREAD: one.
#pragma once

#include <compare>
#include <map>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "engine/model/weights/model_files.h"

namespace ringside {

class NetworkValues {
 public:
  /// REQUIRES: `files` outlives it and passed CheckTensors.
  explicit NetworkValues(const ModelFiles& files);

  /// The values of tensor `wanted` of a plan for the same network (`spec`: that plan's), in file order. ERRORS:
  /// kInvalidArgument, with the tensor, if the network has no such tensor.
  Result<std::vector<float>> Of(const PlannedTensor& wanted, const ModelSpec& spec) const;

 private:
  /// Identifies a tensor of the network.
  struct Place {
    TensorRole role;
    int64_t layer;
    bool encoder;
    friend auto operator<=>(const Place&, const Place&) = default;
  };
  Result<std::vector<float>> Part(const Place& place, RopePairs pairs) const;
  Result<std::vector<float>> Read(const Place& place) const;
  bool Has(const Place& place) const { return planned_.contains(place); }

  const ModelFiles& files_;
  std::map<Place, const PlannedTensor*> planned_;
  std::map<std::string_view, const FileTensor*> tensors_;
};

/// The values in a file's type, rounded to nearest. ERRORS: kInvalidArgument, with the tensor, for a finite value that
/// is too large for the type; with `exact`, for any value that the type cannot represent.
Result<std::vector<std::byte>> Encode(std::string_view name, const std::vector<float>& values, DType dtype, bool exact);

}  // namespace ringside
