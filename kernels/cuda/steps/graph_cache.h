// Recorded steps as CUDA graphs. A step seen for the first time is to be launched operation by operation; from the
// second on it is one graph. Owned by the backend, one thread.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <list>
#include <unordered_map>

#include "kernels/cuda/steps/step_op.h"

namespace ringside::cuda {

class StepRunner;

class GraphCache {
 public:
  GraphCache() = default;
  GraphCache(const GraphCache&) = delete;
  GraphCache& operator=(const GraphCache&) = delete;
  ~GraphCache() { Clear(); }

  /// The graph of these operations; null the first time they are asked for.
  cudaGraphExec_t Find(const StepOps& ops, StepRunner& runner);
  void Clear();

 private:
  static constexpr size_t kMostSteps = 512;  // then all are forgotten: shapes that come once must not pile up

  struct Entry {
    StepOps ops;
    cudaGraphExec_t graph = nullptr;
  };
  std::unordered_map<uint64_t, std::list<Entry>> entries_;
  size_t count_ = 0;
};

}  // namespace ringside::cuda
