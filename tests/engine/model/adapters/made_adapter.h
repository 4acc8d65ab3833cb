// A random LoRA adapter for a golden model, in PEFT's format, and the model merged with it: W + s B A, as PEFT's
// merge_and_unload computes it. In temporary folders, deleted with the object. THREAD: tests only.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace ringside {

struct AdapterTraits {
  uint32_t seed = 1;
  int64_t rank = 3;
  double alpha = 6;
  bool by_root = false;
  std::map<std::string, int64_t> ranks = {};  // rank_pattern
  std::map<std::string, double> alphas = {};  // alpha_pattern
  std::vector<std::string> only = {};         // suffixes of module names; empty = all layer matrices
};

class MadeAdapter {
 public:
  /// `name`: of a golden Hugging Face folder.
  MadeAdapter(const std::string& name, const AdapterTraits& traits);
  ~MadeAdapter();
  MadeAdapter(const MadeAdapter&) = delete;
  MadeAdapter& operator=(const MadeAdapter&) = delete;

  const std::string& path() const { return adapter_; }
  /// A Hugging Face folder.
  const std::string& merged() const { return merged_; }
  /// The adapter as llama.cpp's converter writes it for a Llama model with these heads: rows of queries and keys are
  /// permuted like those of their matrices.
  std::string AsGguf(int64_t heads, int64_t kv_heads) const;

  struct Matrix {
    std::string module;
    int64_t rank, inputs, outputs;
    std::vector<float> a, b;  // b without s
  };

 private:
  void WritePeft(const AdapterTraits& traits) const;

  std::string adapter_, merged_;
  double alpha_ = 0;
  std::vector<Matrix> matrices_;
};

}  // namespace ringside
