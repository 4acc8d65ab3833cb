#include "kernels/cuda/steps/graph_cache.h"

#include <algorithm>

#include "kernels/cuda/cuda_check.h"
#include "kernels/cuda/steps/step_runner.h"

namespace ringside::cuda {
namespace {

// Equal steps have equal hashes; operator== resolves collisions.
uint64_t HashOf(const StepOps& ops) {
  uint64_t hash = ops.size();
  const auto add = [&](uint64_t value) { hash = (hash ^ value) * 0x9e3779b97f4a7c15u + (hash >> 29); };
  for (const StepOp& op : ops) {
    add(static_cast<uint64_t>(op.kind));
    add(reinterpret_cast<uintptr_t>(op.y.data));
    add(static_cast<uint64_t>(op.x.rows));
    add(static_cast<uint64_t>(op.attention.splits) << 32 | static_cast<uint64_t>(op.attention.tile_count));
    add(static_cast<uint64_t>(op.attention.chunk_splits) << 32 | static_cast<uint64_t>(op.attention.chunk_count));
    add(static_cast<uint64_t>(op.prefixes.splits) << 32 | static_cast<uint64_t>(op.prefixes.count));
  }
  return hash;
}

cudaGraphExec_t Record(const StepOps& ops, StepRunner& runner) {
  const cudaStream_t stream = runner.launcher().stream;
  cudaGraph_t graph = nullptr;
  CHECK_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  runner.Run(ops);
  CHECK_CUDA(cudaStreamEndCapture(stream, &graph));
  cudaGraphExec_t out = nullptr;
  CHECK_CUDA(cudaGraphInstantiate(&out, graph, 0));
  CHECK_CUDA(cudaGraphDestroy(graph));
  CHECK_CUDA(cudaGraphUpload(out, stream));
  return out;
}

}  // namespace

cudaGraphExec_t GraphCache::Find(const StepOps& ops, StepRunner& runner) {
  const uint64_t hash = HashOf(ops);
  if (const auto found = entries_.find(hash); found != entries_.end()) {
    for (Entry& entry : found->second) {
      if (entry.ops != ops) continue;
      if (entry.graph == nullptr) entry.graph = Record(ops, runner);
      return entry.graph;
    }
  }
  if (count_ >= kMaxCachedSteps) Clear();
  entries_[hash].push_back({ops, nullptr});
  ++count_;
  return nullptr;
}

void GraphCache::Clear() {
  for (auto& [hash, entries] : entries_) {
    for (Entry& entry : entries) {
      if (entry.graph != nullptr) CHECK_CUDA(cudaGraphExecDestroy(entry.graph));
    }
  }
  entries_.clear();
  count_ = 0;
}

}  // namespace ringside::cuda
