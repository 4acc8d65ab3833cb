#include "engine/model/ranks/remote_rank.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "base/check.h"
#include "kernels/slab_chunks.h"

namespace ringside {
namespace {

using Kind = RankCallKind;

constexpr uint64_t kUnknown = std::numeric_limits<uint64_t>::max();  // free bytes if unknown

}  // namespace

RemoteRank::~RemoteRank() {
  (void)Ask(EncodeCall(Kind::kEnd));  // answered, so that neither process exits early
}

void RemoteRank::Post(const std::string& call) const {
  std::lock_guard lock(mutex_);
  line_.Send(call);
}

Result<uint64_t> RemoteRank::Ask(const std::string& call) const {
  std::lock_guard lock(mutex_);
  line_.Send(call);
  return Answer();
}

Result<uint64_t> RemoteRank::Answer() const {
  ASSIGN_OR_RETURN(const std::string answer, line_.Receive());
  return DecodeAnswer(answer);
}

std::optional<size_t> RemoteRank::free_bytes() const {
  const auto free = Ask(EncodeCall(Kind::kFreeBytes));
  return free.ok() && *free != kUnknown ? std::optional<size_t>(*free) : std::nullopt;
}

int64_t RemoteRank::page_bytes(int64_t slab_bytes) const {
  const auto bytes = Ask(EncodeCall(Kind::kPageBytes, slab_bytes));
  // Any number will do for a rank that is gone.
  return bytes.ok() ? std::max<int64_t>(1, static_cast<int64_t>(*bytes)) : 1;
}

Result<Buffer> RemoteRank::Reserve(size_t bytes) {
  ASSIGN_OR_RETURN(const uint64_t address, Ask(EncodeCall(Kind::kReserveSlabs, static_cast<int64_t>(bytes))));
  return Buffer(this, reinterpret_cast<void*>(address), bytes);
}

Status RemoteRank::Commit(void* data, size_t bytes) {
  return Ask(EncodeCall(Kind::kCommit, static_cast<int64_t>(bytes), data)).status();
}
void RemoteRank::Decommit(void* data, size_t bytes) {
  Post(EncodeCall(Kind::kDecommit, static_cast<int64_t>(bytes), data));
}
void RemoteRank::Free(void* data, size_t bytes) { Post(EncodeCall(Kind::kFree, static_cast<int64_t>(bytes), data)); }
void RemoteRank::CopyOnDevice(void* to, const void* from, size_t bytes) {
  Post(EncodeCall(Kind::kCopyOnDevice, static_cast<int64_t>(bytes), to, from));
}

CopyTicket RemoteRank::SaveSlab(const KvShape& shape, const void* slab, std::span<const SlabRun> runs) {
  std::lock_guard lock(mutex_);
  line_.Send(EncodeCopy(Kind::kSave, shape, slab, runs));
  std::vector<std::byte> bytes;
  for (const SlabRun& run : runs) {
    bytes.resize(static_cast<size_t>(run.all_bytes()));
    line_.ReceiveBytes(bytes.data(), bytes.size());
    if (!line_.status().ok()) return 0;  // status() reports it: the saved bytes will not be used
    const std::byte* from = bytes.data();
    ForEachChunk(shape, run, [&](int64_t, std::byte* host, size_t size) {
      std::copy_n(from, size, host);
      from += size;
    });
  }
  return 0;
}

CopyTicket RemoteRank::LoadSlab(const KvShape& shape, void* slab, std::span<const SlabRun> runs) {
  std::lock_guard lock(mutex_);
  line_.Send(EncodeCopy(Kind::kLoad, shape, slab, runs));
  std::vector<std::byte> bytes;
  for (const SlabRun& run : runs) {
    bytes.clear();
    ForEachChunk(shape, run,
                 [&](int64_t, const std::byte* host, size_t size) { bytes.insert(bytes.end(), host, host + size); });
    line_.SendBytes(bytes.data(), bytes.size());
  }
  return 0;
}

Status RemoteRank::Reserve(int64_t rows) { return Ask(EncodeCall(Kind::kReserve, rows)).status(); }
void RemoteRank::Run(const StepPlan& plan, const KvShape& shape, std::span<const AttentionSegment> segments) {
  Post(EncodeRun(plan, shape, segments));
}
void RemoteRank::CopyLogits(std::span<float> /*logits*/) { Post(EncodeCall(Kind::kCopyLogits)); }
void RemoteRank::Choose(std::span<const RowSamplingParams> choices) { Post(EncodeChoices(Kind::kChoose, choices)); }
void RemoteRank::KeepLogits() { Post(EncodeCall(Kind::kKeepLogits)); }
void RemoteRank::ChooseKept(std::span<const RowSamplingParams> choices, std::span<const size_t> rows) {
  CHECK(rows.empty());
  Post(EncodeChoices(Kind::kChooseKept, choices));
}
std::vector<SampledToken> RemoteRank::Finish() {
  Post(EncodeCall(Kind::kFinish));
  return {};
}

}  // namespace ringside
