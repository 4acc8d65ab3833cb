#include "kernels/attention_checks.h"

#include "base/check.h"

namespace ringside {
namespace {

void CheckSegment(const AttentionSegment& s, const KvShape& shape, int64_t rows) {
  CHECK(s.slab != nullptr);
  CHECK(s.first_row >= 0 && s.rows >= 0 && s.first_row + s.rows <= rows);
  CHECK(s.position >= 0 && s.pinned >= 0);
  CHECK_LE(s.pinned, shape.pinned_capacity());
  if (s.history != nullptr) {
    CHECK(s.branch >= s.pinned && (s.branch - s.pinned) % KvShape::kTile == 0 && s.position >= s.branch);
  }
  if (s.prefix != nullptr) {
    CHECK(s.prefix_end >= s.pinned && s.prefix_end <= (s.history != nullptr ? s.branch : s.position));
    CHECK(s.rows == 0 || s.prefix_end == s.pinned || s.first_live[s.rows - 1] == s.pinned);
  }
  for (int64_t r = 0; r < s.rows; ++r) {
    const int64_t t = s.position + r, last = s.LastSeen(r);
    CHECK(last >= t && last < s.position + s.rows && (last < s.pinned) == (t < s.pinned));
    CHECK(r == 0 || last >= s.LastSeen(r - 1));
    if (t < s.pinned) continue;
    CHECK(s.first_live[r] >= s.pinned && s.first_live[r] <= t);
    // Rows are written before they are read: no later row may overwrite a position that row r still sees.
    CHECK_LT(s.position + s.rows - 1 - s.first_live[r], shape.ring_rows());
  }
}

}  // namespace

bool HasQueriesOnly(const AttentionArgs& args) {
  return args.stored || (args.seen == VisibleKeys::kPinned && !args.segments.empty() &&
                         args.segments.front().position >= args.segments.front().pinned);
}

void CheckAttention(const AttentionArgs& args, int64_t max_head_dim) {
  const KvShape& shape = args.shape;
  CHECK(!IsQuantized(shape.dtype));
  CHECK(args.layer >= 0 && args.layer < shape.layers);
  const auto [kv_heads, head_dim] = shape.Layer(args.layer);
  CHECK(head_dim > 0 && head_dim <= max_head_dim && head_dim % 2 == 0);
  CHECK(shape.latent_dim >= 0 && shape.latent_dim <= head_dim);
  CHECK(kv_heads > 0 && args.heads >= 0 && args.heads % kv_heads == 0);
  const bool queries_only = HasQueriesOnly(args);
  const int64_t stored = queries_only ? 0 : shape.latent_dim > 0 ? kv_heads : 2 * kv_heads;
  CHECK_EQ(args.qkv.cols, (args.heads + stored) * head_dim);
  CHECK_EQ(args.out.cols, args.heads * shape.ValueDim(head_dim));
  if (args.pairs != RopePairs::kNone) {
    CHECK(args.first_rotary >= 0 && args.rotary >= 0 && args.rotary % 2 == 0);
    CHECK_LE(args.first_rotary + args.rotary, head_dim);
  }
  for (const AttentionSegment& s : args.segments) {
    CheckSegment(s, shape, args.qkv.rows);
    if (args.seen == VisibleKeys::kPinned && !args.stored) {
      CHECK(queries_only ? s.position >= s.pinned && s.pinned > 0 : s.position + s.rows <= s.pinned);
    }
    if (args.seen == VisibleKeys::kRing) CHECK_GE(s.position, s.pinned);
  }
}

}  // namespace ringside
