// A cache of CUDA graphs keyed by the operations of a step. A step is launched operation by operation the first time
// and captured as a graph the second time. Owned by the backend.
// THREAD: one.
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

  /// The graph of these operations; null on the first call for them.
  cudaGraphExec_t Find(const StepOps& ops, StepRunner& runner);
  void Clear();

 private:
  static constexpr size_t kMaxCachedSteps = 512;  // then the cache is cleared: one-off shapes must not accumulate

  struct Entry {
    StepOps ops;
    cudaGraphExec_t graph = nullptr;
  };
  std::unordered_map<uint64_t, std::list<Entry>> entries_;
  size_t count_ = 0;
};

}  // namespace ringside::cuda
