// Attention of the CUDA backend: the recorded operation.
#include <utility>

#include "kernels/attention_checks.h"
#include "kernels/cuda/cuda_backend.h"

namespace ringside::cuda {
namespace {

constexpr int64_t kMaxHeadDim = 576;  // a latent of 512 and 64 rotated dimensions

/// Whether every row starts at a 16-byte boundary.
bool AllowsVectorAccess(const Tensor& x) {
  return reinterpret_cast<uintptr_t>(x.data) % 16 == 0 && StorageBytes(x.dtype, x.stride) % 16 == 0;
}

/// Makes later operations wait for this layer's slab copies if slabs of the segments are being copied.
void OrderAfterCopies(const AttentionArgs& args, SlabCopies* copies, StepRecorder* recorder) {
  bool issued = false;
  for (const AttentionSegment& segment : args.segments) {
    for (const void* slab : {HistoryOf(segment), static_cast<const void*>(segment.slab), segment.prefix}) {
      if (slab == nullptr || !copies->Moves(slab)) continue;
      // A step that waits break into several launches is not worth capturing as a graph.
      if (!std::exchange(issued, true)) recorder->Issue();
      copies->Await(slab, args.layer, recorder->stream());
    }
  }
}

}  // namespace

void CudaBackend::Attention(const AttentionArgs& args) {
  CHECK(!IsQuantized(args.qkv.dtype) && !IsQuantized(args.out.dtype));
  CheckAttention(args, kMaxHeadDim);
  for (const AttentionSegment& s : args.segments) CHECK_LE(s.position + s.rows, int64_t{INT32_MAX});
  if (args.qkv.rows == 0) return;
  OrderAfterCopies(args, &slab_copies_, &recorder_);
  const KvShape& shape = args.shape;
  const ScoreTraits& scores = args.scores;
  auto [plan, prefixes] = attention_.PlanFor(args);
  plan.qkv = args.qkv, plan.out = args.out;
  plan.scale = scores.scale, plan.soft_cap = scores.soft_cap;
  plan.slopes = scores.slopes, plan.sinks = scores.sinks;
  plan.biases = scores.biases, plan.bias_reach = static_cast<int32_t>(scores.bias_reach);
  plan.query_weights = args.query_weights;
  if (args.pairs == RopePairs::kNone || args.rotary == 0) plan.rotary = 0;  // other layers of the plan may rotate
  plan.layer_offset = shape.TileOffset(args.layer, 0, 0);
  if (HasTiledAttention(plan)) CHECK(AllowsVectorAccess(args.out));
  CHECK(plan.wgmma_queries == 0 || AllowsVec8(plan, args.qkv));
  if (last_layer_.epoch != recorder_.submission_epoch()) last_layer_ = {.epoch = recorder_.submission_epoch()};
  plan.early = plan.stores != 0 && args.layer > last_layer_.layer && !slab_copies_.busy() ? 1 : 0;
  if (!args.stored) last_layer_.layer = args.layer;
  // Prefill mixed with other sequences' rows, and encoder inputs, rarely repeat a shape.
  const auto sequences = static_cast<int64_t>(args.segments.size());
  const bool input = args.heads == 0 && args.pairs == RopePairs::kNone;
  const bool encodes = input || (args.seen == VisibleKeys::kPinned && plan.queries_only == 0);
  if (encodes || (sequences > 1 && args.qkv.rows > sequences)) recorder_.ExpectNoRecurrence();
  recorder_.Record({.kind = OpKind::kAttention, .x = args.qkv, .y = args.out, .attention = plan, .prefixes = prefixes},
                   args.qkv.rows);
}

}  // namespace ringside::cuda
