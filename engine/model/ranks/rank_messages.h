// What the first process tells a rank of another one to do, and what that answers, as bytes. Whatever is read is
// hostile: nothing but what memory safety needs is promised of a call that was read, so a broken one gives wrong
// numbers at worst. Plain values and pure functions.
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
#include "kernels/slab_run.h"
#include "kernels/token_choice.h"

namespace ringside {

enum class RankCallKind : uint8_t {
  kEnd,  // the last, answered
  // What a RankDecoder does, without an answer but for kReserve.
  kReserve,
  kRun,
  kCopyLogits,
  kChoose,
  kKeepLogits,
  kChooseKept,
  kFinish,
  // What a SlabMemory does; an answer follows to all but kDecommit, kFree and kCopyOnDevice. The bytes that are saved
  // follow the answer, those to be loaded the call.
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

/// Addresses are those of the process that is told.
struct RankCall {
  RankCallKind kind = RankCallKind::kEnd;
  int64_t count = 0;               // rows, or bytes
  uint64_t address = 0, from = 0;  // of slab memory
  KvShape shape;                   // of this rank's slabs
  std::vector<SlabRun> runs;       // without places on the host
  StepPlan plan;                   // without angles; slabs as addresses here
  std::vector<TokenChoice> choices;

  /// What `choices` borrow.
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
std::string EncodeChoices(RankCallKind kind, std::span<const TokenChoice> choices);
std::string EncodeCopy(RankCallKind kind, const KvShape& shape, const void* slab, std::span<const SlabRun> runs);
/// kCorruption unless a rank with this part of a network can do it: ids, rows and positions are within what the spec
/// and the shape allow. Whether addresses are the rank's own it must see for itself, and that of no more rows tokens
/// are awaited than were chosen.
Status DecodeCall(std::string_view bytes, const ModelSpec& own, RankCall* call);

/// An answer: how it went, and a number (a size, or an address).
std::string EncodeAnswer(const Result<uint64_t>& answer);
Result<uint64_t> DecodeAnswer(std::string_view bytes);

}  // namespace ringside
