// The part of a network on one rank. A stage (pipeline parallelism, Huang et al. 2019) has consecutive layers; the
// first also has the embedding, the last the final norm and the head. Each rank of a stage (tensor parallelism, Shoeybi
// et al. 2019) has some heads of each layer with their queries, keys, values and recurrent states, some columns of
// every MLP and every expert, and some tokens of the head; norms, routers, embedding and the residual stream are
// replicated. Plain values.
#pragma once

#include <cstdint>
#include <vector>

#include "base/status.h"
#include "engine/families/model_spec.h"
#include "kernels/ranks/comm.h"

namespace ringside {

/// [begin, end)
struct IndexRange {
  int64_t begin = 0, end = 0;
  int64_t size() const { return end - begin; }
  friend bool operator==(const IndexRange&, const IndexRange&) = default;
};

/// A rank's heads of a layer; several ranks may share a key/value head.
struct HeadShare {
  IndexRange heads, kv_heads;
  bool saves = true;  // the first rank with these key/value heads
};

struct Shard {
  int rank = 0, ranks = 1;  // within its stage
  int stage = 0, stages = 1;
  IndexRange layers;
  IndexRange vocab;   // tokens of the head
  int64_t block = 1;  // values of a quantized block of the files, which cannot be split

  /// True if it has whole layers.
  bool whole() const { return ranks == 1; }
  bool embeds() const { return stage == 0; }
  bool chooses() const { return stage == stages - 1; }
  /// Its part of a layer's heads, given their numbers; empty if the heads do not suffice for all ranks.
  HeadShare Heads(int64_t heads, int64_t kv_heads) const;
  /// Its part of the columns of an MLP, an expert or a short convolution of this width.
  IndexRange Columns(int64_t width) const;
  /// The spec of this rank's part: fewer layers, fewer heads and narrower MLPs.
  ModelSpec Of(const ModelSpec& spec) const;
};

/// The shards of all ranks, in order. Layers are distributed to stages, and key/value heads to ranks, whole, unevenly
/// if necessary; with more ranks than key/value heads some ranks share one and split its queries. No stage reads keys
/// of another one. `block`: Shard::block. ERRORS: kInvalidArgument, with both numbers, if a stage or a rank would have
/// none.
Result<std::vector<Shard>> MakeShards(const ModelSpec& spec, const RankLayout& layout, int64_t block = 1);

/// The first head column of each rank of a stage, then the vocabulary size: ranks + 1 numbers.
std::vector<int64_t> VocabBorders(const std::vector<Shard>& shards);

}  // namespace ringside
