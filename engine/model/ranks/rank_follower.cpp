#include "engine/model/ranks/rank_follower.h"

#include <algorithm>
#include <limits>

#include "kernels/deferred_token.h"

namespace ringside {
namespace {

using Kind = RankCallKind;

constexpr uint64_t kSlabAlignment = 64;
constexpr size_t kMaxUnfinished = 2;

Status OutOfOrder() { return Corruption("a call from the first process is out of order"); }

void* Pointer(uint64_t address) { return reinterpret_cast<void*>(address); }

}  // namespace

Status RankFollower::Follow() {
  RankCall call;
  for (;;) {
    ASSIGN_OR_RETURN(const std::string message, line_.Receive());
    RETURN_IF_ERROR(DecodeCall(message, own_, &call));
    if (call.kind == Kind::kEnd) {
      line_.Send(EncodeAnswer(uint64_t{0}));
      return Status::Ok();
    }
    // Not after the last call: other ranks may have ended by then.
    RETURN_IF_ERROR(backend_.status());
    RETURN_IF_ERROR(Do(call));
  }
}

Status RankFollower::Do(RankCall& call) {
  const auto answer = [this](const Result<uint64_t>& how) {
    line_.Send(EncodeAnswer(how));
    return Status::Ok();
  };
  const auto done = [&](const Status& status) {
    return answer(status.ok() ? Result<uint64_t>(uint64_t{0}) : Result<uint64_t>(status));
  };
  const auto bytes = static_cast<size_t>(call.count);
  switch (call.kind) {
    case Kind::kEnd:
      break;
    case Kind::kReserve:
      return done(decoder_.Reserve(call.count));
    case Kind::kRun:
      return Run(call.plan);
    case Kind::kCopyLogits:
      if (std::exchange(step_, Step::kNone) != Step::kRun) return OutOfOrder();
      decoder_.CopyLogits({});
      break;
    case Kind::kKeepLogits:
      if (std::exchange(step_, Step::kKept) != Step::kRun || wanted_ > kMaxDeferredRows) return OutOfOrder();
      decoder_.KeepLogits();
      break;
    case Kind::kChoose:
    case Kind::kChooseKept: {
      const bool kept = call.kind == Kind::kChooseKept;
      if (std::exchange(step_, Step::kNone) != (kept ? Step::kKept : Step::kRun) || call.choices.size() != wanted_ ||
          ++unfinished_ > kMaxUnfinished) {
        return OutOfOrder();
      }
      kept ? decoder_.ChooseKept(call.choices, {}) : decoder_.Choose(call.choices);
      awaited_ = wanted_;
      break;
    }
    case Kind::kFinish:
      if (unfinished_ == 0) return OutOfOrder();
      --unfinished_;
      decoder_.Finish();
      return backend_.status();
    case Kind::kPageBytes:
      return answer(static_cast<uint64_t>(backend_.page_bytes(call.count)));
    case Kind::kFreeBytes:
      return answer(uint64_t{backend_.free_bytes().value_or(std::numeric_limits<uint64_t>::max())});
    case Kind::kReserveSlabs:
      return answer(ReserveSlabs(bytes));
    case Kind::kCommit:
      RETURN_IF_ERROR(CheckOwnMemory(call.address, call.count));
      return done(backend_.Commit(Pointer(call.address), bytes));
    case Kind::kDecommit:
      RETURN_IF_ERROR(CheckOwnMemory(call.address, call.count));
      backend_.Decommit(Pointer(call.address), bytes);
      break;
    case Kind::kFree:
      return Free(call);
    case Kind::kCopyOnDevice:
      RETURN_IF_ERROR(CheckOwnMemory(call.address, call.count));
      RETURN_IF_ERROR(CheckOwnMemory(call.from, call.count));
      backend_.CopyOnDevice(Pointer(call.address), Pointer(call.from), bytes);
      break;
    case Kind::kSave:
      return Save(call);
    case Kind::kLoad:
      return Load(call);
  }
  return Status::Ok();
}

Status RankFollower::Run(StepPlan& plan) {
  if (step_ != Step::kNone) return OutOfOrder();
  for (const AttentionSegment& segment : plan.segments) {
    const auto address = reinterpret_cast<uint64_t>(segment.slab);
    RETURN_IF_ERROR(CheckOwnMemory(address, plan.shape.slab_bytes()));
    if (address % kSlabAlignment != 0) return OutOfOrder();
  }
  for (const TokenId id : plan.ids) {
    if (IsDeferredToken(id) && DeferredTokenIndex(id) >= awaited_) return OutOfOrder();
  }
  planner_.ComputeAngles(&plan);
  decoder_.Run(plan, plan.shape, plan.segments);
  step_ = Step::kRun;
  wanted_ = plan.wanted_rows.size();
  return Status::Ok();
}

Result<uint64_t> RankFollower::ReserveSlabs(size_t bytes) {
  ASSIGN_OR_RETURN(slabs_.emplace_back(), backend_.Reserve(bytes));
  return reinterpret_cast<uint64_t>(slabs_.back().data());
}

Status RankFollower::Free(const RankCall& call) {
  if (std::erase_if(slabs_, [&](const Buffer& one) { return one.data() == Pointer(call.address); }) == 0) {
    return OutOfOrder();
  }
  return Status::Ok();
}

Status RankFollower::CheckOwnMemory(uint64_t address, int64_t bytes) const {
  const bool own = std::ranges::any_of(slabs_, [&](const Buffer& one) {
    const auto begin = reinterpret_cast<uint64_t>(one.data());
    return address >= begin && address - begin <= one.bytes() &&
           static_cast<uint64_t>(bytes) <= one.bytes() - (address - begin);
  });
  return own ? Status::Ok() : Corruption("the first process used an address that is not this rank's memory");
}

Status RankFollower::Save(const RankCall& call) {
  RETURN_IF_ERROR(CheckOwnMemory(call.address, call.shape.slab_bytes()));
  std::vector<std::byte> bytes;
  for (SlabRun run : call.runs) {
    bytes.resize(static_cast<size_t>(run.all_bytes()));
    run.host = bytes.data(), run.host_stride = run.bytes;
    backend_.WaitForCopy(backend_.SaveSlab(call.shape, Pointer(call.address), {&run, 1}));
    line_.SendBytes(bytes.data(), bytes.size());
  }
  return Status::Ok();
}

Status RankFollower::Load(const RankCall& call) {
  RETURN_IF_ERROR(CheckOwnMemory(call.address, call.shape.slab_bytes()));
  std::vector<std::byte> bytes;
  for (SlabRun run : call.runs) {
    bytes.resize(static_cast<size_t>(run.all_bytes()));
    line_.ReceiveBytes(bytes.data(), bytes.size());
    RETURN_IF_ERROR(line_.status());
    run.host = bytes.data(), run.host_stride = run.bytes;
    backend_.WaitForCopy(backend_.LoadSlab(call.shape, Pointer(call.address), {&run, 1}));
  }
  return Status::Ok();
}

}  // namespace ringside
