// The ring's oracle: a Llama network in float64 that follows the published formulation of StreamingLLM (Xiao et al.
// 2023). No ring, no absolute angles, no second query: keys are stored unrotated, and each query gathers its visible
// keys, rotates the j-th of that list by j and itself by the last j. Slow and simple. THREAD: tests only.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "cache/ring.h"
#include "engine/families/model_spec.h"
#include "engine/text/tokenizer.h"

namespace ringside {

class StreamingReference {
 public:
  /// `folder` contains a Llama model of float32 safetensors; `spec` is what Model::Load derived from it. With
  /// `absolute`, pinned keys keep their true distance instead (as if there were no second query).
  StreamingReference(const std::string& folder, const ModelSpec& spec, const RingWindow& window,
                     std::set<int64_t> message_starts, bool absolute = false);

  /// Appends one token; returns its logits [vocab].
  std::vector<double> Append(TokenId id);
  std::vector<double> AppendAll(const std::vector<TokenId>& ids);

 private:
  using Row = std::vector<double>;
  struct Layer {
    std::vector<Row> keys, values;  // by position, [G d] each
  };

  Row Linear(const std::string& name, const Row& x) const;
  Row Norm(const std::string& name, const Row& x) const;
  int64_t FirstLive(int64_t t) const;
  Row Attend(const Layer& layer, const Row& q, int64_t t) const;

  const ModelSpec spec_;
  const RingWindow window_;
  const std::set<int64_t> starts_;
  const bool absolute_;
  std::map<std::string, std::vector<double>> weights_;
  std::vector<Layer> layers_;
};

}  // namespace ringside
