#include "engine/model/ranks/slab_shards.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <numeric>

#include "base/check.h"

namespace ringside {

SlabShards::SlabShards(RankGroup& group, std::vector<SlabMemory*> memories, const std::vector<Shard>& shards,
                       const ModelSpec& spec)
    : group_(group) {
  for (size_t r = 0; r < memories.size(); ++r) ranks_.emplace_back(memories[r], shards[r], spec);
}

SlabShards::~SlabShards() = default;

std::string SlabShards::Describe() const {
  return fmt::format("{} ranks, each on {}", ranks_.size(), ranks_.front().memory->Describe());
}

std::optional<size_t> SlabShards::free_bytes() const {
  std::optional<size_t> least;
  for (const Rank& rank : ranks_) {
    const std::optional<size_t> free = rank.memory->free_bytes();
    if (!free) continue;
    const auto [own, whole] = rank.part.ratio();
    const size_t all = *free / static_cast<size_t>(own) * static_cast<size_t>(whole);
    least = std::min(least.value_or(all), all);
  }
  return least;
}

Status SlabShards::status() const {
  for (const Rank& rank : ranks_) RETURN_IF_ERROR(rank.memory->status());
  return Status::Ok();
}

// A page here consists of the corresponding share of every rank's page.
int64_t SlabShards::page_bytes(int64_t slab_bytes) const {
  int64_t page = 1;
  for (size_t r = 0; r < ranks_.size(); ++r) {
    const auto [own, whole] = ranks_[r].part.ratio();
    const int64_t all = ranks_[r].memory->page_bytes(Share(r, slab_bytes)) * whole;
    page = std::lcm(page, all / std::gcd(all, own));
  }
  return page;
}

Result<Buffer> SlabShards::Reserve(size_t bytes) {
  Range range{.data = nullptr, .bytes = bytes, .own = std::vector<Buffer>(ranks_.size())};
  RETURN_IF_ERROR(group_.Try([&](size_t r) {
    ASSIGN_OR_RETURN(range.own[r], ranks_[r].memory->Reserve(Share(r, bytes)));
    return Status::Ok();
  }));
  void* data = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (data == MAP_FAILED) return Overloaded(fmt::format("no addresses for {} bytes", bytes));
  range.data = static_cast<std::byte*>(data);
  ranges_.push_back(std::move(range));
  return Buffer(this, data, bytes);
}

void SlabShards::Free(void* data, size_t bytes) {
  const auto range = std::ranges::find(ranges_, data, &Range::data);
  CHECK(range != ranges_.end());
  group_.Run([&](size_t r) { range->own[r] = Buffer(); });
  ranges_.erase(range);
  CHECK_EQ(munmap(data, bytes), 0);
}

const SlabShards::Range& SlabShards::RangeOf(const void* data) const {
  const auto* at = static_cast<const std::byte*>(data);
  const auto range =
      std::ranges::find_if(ranges_, [&](const Range& one) { return at >= one.data && at < one.data + one.bytes; });
  CHECK(range != ranges_.end());
  return *range;
}

void* SlabShards::Local(size_t rank, const void* data) const {
  const Range& range = RangeOf(data);
  return static_cast<std::byte*>(range.own[rank].data()) +
         Share(rank, static_cast<const std::byte*>(data) - range.data);
}

// Every rank, or none.
template <class Do, class Undo>
Status SlabShards::OnAll(Do call, Undo undo) {
  std::vector<Status> statuses(ranks_.size());
  group_.Run([&](size_t r) { statuses[r] = call(r); });
  const auto failed = std::ranges::find_if(statuses, [](const Status& status) { return !status.ok(); });
  if (failed == statuses.end()) return Status::Ok();
  group_.Run([&](size_t r) {
    if (statuses[r].ok()) undo(r);
  });
  return *failed;
}

Status SlabShards::Commit(void* data, size_t bytes) {
  return OnAll([&](size_t r) { return ranks_[r].memory->Commit(Local(r, data), Share(r, bytes)); },
               [&](size_t r) { ranks_[r].memory->Decommit(Local(r, data), Share(r, bytes)); });
}

Status SlabShards::Share(void* to, const void* from, size_t bytes) {
  return OnAll([&](size_t r) { return ranks_[r].memory->Share(Local(r, to), Local(r, from), Share(r, bytes)); },
               [&](size_t r) { ranks_[r].memory->Unshare(Local(r, to), Share(r, bytes)); });
}

void SlabShards::Unshare(void* data, size_t bytes) {
  group_.Run([&](size_t r) { ranks_[r].memory->Unshare(Local(r, data), Share(r, bytes)); });
}

bool SlabShards::Committed(const void* data, size_t bytes, int64_t timeout_us) {
  std::vector<char> there(ranks_.size());
  group_.Run([&](size_t r) { there[r] = ranks_[r].memory->Committed(Local(r, data), Share(r, bytes), timeout_us); });
  return std::ranges::all_of(there, [](char one) { return one != 0; });
}

void SlabShards::Decommit(void* data, size_t bytes) {
  group_.Run([&](size_t r) { ranks_[r].memory->Decommit(Local(r, data), Share(r, bytes)); });
}

void SlabShards::CopyOnDevice(void* to, const void* from, size_t bytes) {
  group_.Run([&](size_t r) { ranks_[r].memory->CopyOnDevice(Local(r, to), Local(r, from), Share(r, bytes)); });
}

CopyTicket SlabShards::SaveSlab(const KvShape& shape, const void* slab, std::span<const SlabRun> runs) {
  return Begin(shape, slab, runs, false);
}
CopyTicket SlabShards::LoadSlab(const KvShape& shape, void* slab, std::span<const SlabRun> runs) {
  return Begin(shape, slab, runs, true);
}

CopyTicket SlabShards::Begin(const KvShape& shape, const void* slab, std::span<const SlabRun> runs, bool load) {
  const uint64_t number = ++copies_;
  for (const SlabRun& run : runs) {
    if (!load) ranks_.front().part.ClearPadding(shape, run);
  }
  group_.Run([&](size_t r) {
    Rank& rank = ranks_[r];
    CopyTicket ticket = 0;
    std::vector<SlabRun> own;
    for (const SlabRun& run : runs) {
      const std::vector<SlabRun> part = rank.part.RunsOf(shape, run, !load);
      own.insert(own.end(), part.begin(), part.end());
    }
    if (!own.empty()) {
      const KvShape own_shape = ShapeOf(r, shape);
      ticket = load ? rank.memory->LoadSlab(own_shape, Local(r, slab), own)
                    : rank.memory->SaveSlab(own_shape, Local(r, slab), own);
    }
    rank.Of(load).begun.emplace_back(number, ticket);
    PollCopies(rank, false);
  });
  return 2 * number + (load ? 1 : 0);
}

void SlabShards::PollCopies(Rank& rank, bool wait) {
  for (Copies* copies : {&rank.saved, &rank.loaded}) {
    while (!copies->begun.empty()) {
      const auto [number, ticket] = copies->begun.front();
      if (ticket != 0 && wait) rank.memory->WaitForCopy(ticket);
      if (ticket != 0 && !wait && !rank.memory->CopyDone(ticket)) break;
      copies->done = number;
      copies->begun.pop_front();
    }
  }
}

bool SlabShards::CopyDone(CopyTicket ticket) {
  bool done = true;
  for (Rank& rank : ranks_) done = done && rank.Of(ticket % 2 == 1).done >= ticket / 2;
  if (done) return true;
  group_.Post([this](size_t r) { PollCopies(ranks_[r], false); });
  return false;
}

void SlabShards::WaitForCopy(CopyTicket ticket) {
  if (CopyDone(ticket)) return;
  group_.Run([this](size_t r) { PollCopies(ranks_[r], true); });
}

int64_t SlabShards::slab_chunk_bytes() const {
  const auto [own, whole] = ranks_.front().part.ratio();
  return ranks_.front().memory->slab_chunk_bytes() * whole / own;
}

}  // namespace ringside
