// The weights of a model's files as another format wants them: joined or taken apart, transposed, with their rows in
// another order. One tensor at a time, in float32, which holds every type's values. One thread.
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
  /// `files` must outlive it, and have passed CheckTensors.
  explicit NetworkValues(const ModelFiles& files);

  /// The values of a tensor of a plan for the same network, `spec` that plan's, in the order in which its file has
  /// them. kInvalidArgument, naming the tensor, if the network has none like it.
  Result<std::vector<float>> Of(const PlannedTensor& wanted, const ModelSpec& spec) const;

 private:
  /// Which tensor of the network.
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

/// The values in a file's type, rounded to nearest. kInvalidArgument, naming the tensor, for a finite one that is too
/// large for the type; with `exact` for any that the type does not hold.
Result<std::vector<std::byte>> Encode(std::string_view name, const std::vector<float>& values, DType dtype, bool exact);

}  // namespace ringside
