// The part of a network that one rank has. A stage (pipeline parallel, Huang et al. 2019) has some layers one behind
// the other; the first has the embedding, too, the last the final norm and the head. The ranks of a stage (tensor
// parallel, Shoeybi et al. 2019) have some heads of its attentions each, with the queries, keys and values that belong
// to them, some columns of its MLPs, some tokens of the head; norms, embedding and the residual stream are every
// rank's. Plain values.
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

struct Shard {
  int rank = 0, ranks = 1;  // of its stage
  int stage = 0, stages = 1;
  IndexRange layers;
  IndexRange heads, kv_heads;  // of each layer's attention; several ranks may have the same key/value head
  IndexRange ffn;              // columns of the MLP between its two matrices
  IndexRange vocab;            // tokens of the head
  bool saves = true;           // of the ranks that have this key/value head the first

  /// Of its layers.
  bool whole() const { return ranks == 1; }
  bool embeds() const { return stage == 0; }
  bool chooses() const { return stage == stages - 1; }
  /// The spec of what this rank computes: fewer layers, fewer heads and a narrower MLP.
  ModelSpec Of(const ModelSpec& spec) const;
};

/// The shards of all ranks, in their order. Layers go to stages, and key/value heads to ranks, whole, unevenly if they
/// must; with more ranks than key/value heads some ranks share one, and each has some of its queries. kInvalidArgument,
/// naming both numbers, if that leaves a stage or a rank without any.
Result<std::vector<Shard>> MakeShards(const ModelSpec& spec, const RankLayout& layout);

/// Where the part of each rank of a stage in the head's columns begins, and the vocabulary's size: ranks + 1 numbers.
std::vector<int64_t> VocabBorders(const std::vector<Shard>& shards);

}  // namespace ringside
