// Copies between a cache and its copy-on-write branches (KvCache::BranchOff), which share the history and differ in the
// few rows after it. Whole tiles are copied on the device. Each function returns the number of copied bytes. THREAD:
// engine.
#pragma once

#include <cstdint>

#include "cache/kv_cache.h"

namespace ringside {

class SlabMemory;

/// Makes `cache` a branch of the first `tokens` tokens of `history` and copies the rows that precede the next token in
/// its tile (fewer than 16).
int64_t BranchOff(SlabMemory& memory, KvCache* cache, const KvCache& history, int64_t tokens);
/// Makes branch `to` equal to branch `from`. REQUIRES: both branch off the same history and have the same rows before
/// `position`.
int64_t CopyBranch(SlabMemory& memory, KvCache* to, const KvCache& from, int64_t position);
/// Appends to branch `to` the rows of branch `from` before position `end`. REQUIRES: both branch off the same history,
/// and `from` starts with the rows of `to`.
int64_t ExtendBranch(SlabMemory& memory, KvCache* to, const KvCache& from, int64_t end);
/// Appends the rows of `branch` before position `end` to its `history`. REQUIRES: nothing was appended to `history`
/// since the branch was made.
int64_t JoinBranch(SlabMemory& memory, KvCache* history, const KvCache& branch, int64_t end);

}  // namespace ringside
