// Wire format of the calls from the first process to a rank of another one, and of the answers. Hostile input: decoding
// guarantees exactly what memory safety needs, so a corrupt call at worst gives wrong numbers. Plain values and pure
// functions.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "engine/families/model_spec.h"
#include "engine/model/step_plan.h"
#include "kernels/row_sampling_params.h"
#include "kernels/slab_run.h"

namespace ringside {

enum class RankCallKind : uint8_t {
  kEnd,  // the last call, answered
  // RankDecoder calls; only kReserve has an answer.
  kReserve,
  kRun,
  kCopyLogits,
  kChoose,
  kKeepLogits,
  kChooseKept,
  kFinish,
  // SlabMemory calls; all but kDecommit, kFree and kCopyOnDevice have an answer. Saved bytes follow the answer, bytes
  // to load follow the call.
  kPageBytes,
  kFreeBytes,
  kReserveSlabs,
  kCommit,
  kDecommit,
  kFree,
  kCopyOnDevice,
  kSave,
  kLoad,
};

/// Addresses are those of the receiving process.
struct RankCall {
  RankCallKind kind = RankCallKind::kEnd;
  int64_t count = 0;               // rows, or bytes
  uint64_t address = 0, from = 0;  // in slab memory
  KvShape shape;                   // of this rank's slabs
  std::vector<SlabRun> runs;       // without host addresses
  StepPlan plan;                   // without angles; slabs are addresses here
  std::vector<RowSamplingParams> choices;

  /// Storage that `choices` borrow from.
  struct Borrowed {
    std::vector<int32_t> banned, repeated;
    std::vector<uint32_t> allowed;
    std::vector<std::pair<int32_t, float>> bias;
    std::vector<std::pair<int32_t, int32_t>> counted;
  };
  std::vector<Borrowed> borrowed;
};

std::string EncodeCall(RankCallKind kind, int64_t count = 0, const void* address = nullptr, const void* from = nullptr);
std::string EncodeRun(const StepPlan& plan, const KvShape& shape, std::span<const AttentionSegment> segments);
std::string EncodeChoices(RankCallKind kind, std::span<const RowSamplingParams> choices);
std::string EncodeCopy(RankCallKind kind, const KvShape& shape, const void* slab, std::span<const SlabRun> runs);
/// ERRORS: kCorruption unless a rank with this part of a network can execute it: ids, rows and positions are within the
/// limits of spec and shape. The caller checks that addresses are the rank's own, and that no more tokens are awaited
/// than were sampled.
Status DecodeCall(std::string_view bytes, const ModelSpec& own, RankCall* call);

/// An answer: a status, and a number (a size or an address).
std::string EncodeAnswer(const Result<uint64_t>& answer);
Result<uint64_t> DecodeAnswer(std::string_view bytes);

}  // namespace ringside
