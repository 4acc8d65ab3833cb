#include "engine/model/ranks/slab_shards.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <numeric>

#include "base/check.h"

namespace ringside {

SlabShards::SlabShards(RankGroup& group, std::vector<SlabMemory*> memories, const std::vector<Shard>& shards,
                       const ModelSpec& spec)
    : group_(group), all_(spec.layers * spec.kv_heads), ranks_(memories.size()) {
  for (size_t r = 0; r < ranks_.size(); ++r) {
    ranks_[r].memory = memories[r];
    ranks_[r].layers = shards[r].layers;
    ranks_[r].kv_heads = shards[r].kv_heads;
    ranks_[r].saves = shards[r].saves;
  }
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
    const size_t all = *free / static_cast<size_t>(rank.size()) * static_cast<size_t>(all_);
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
    const int64_t all = ranks_[r].memory->page_bytes(Share(r, slab_bytes)) * all_;
    page = std::lcm(page, all / std::gcd(all, ranks_[r].size()));
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

KvShape SlabShards::ShapeOf(size_t rank, const KvShape& shape) const {
  KvShape own = shape;
  own.layers = ranks_[rank].layers.size();
  own.kv_heads = ranks_[rank].kv_heads.size();
  return own;
}

Status SlabShards::Commit(void* data, size_t bytes) {
  std::vector<Status> statuses(ranks_.size());
  group_.Run([&](size_t r) { statuses[r] = ranks_[r].memory->Commit(Local(r, data), Share(r, bytes)); });
  const auto failed = std::ranges::find_if(statuses, [](const Status& status) { return !status.ok(); });
  if (failed == statuses.end()) return Status::Ok();
  group_.Run([&](size_t r) {
    if (statuses[r].ok()) ranks_[r].memory->Decommit(Local(r, data), Share(r, bytes));
  });
  return *failed;
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

// In a host slab a rank's heads are contiguous within each of its layers of every tile; its device slab has only those.
CopyTicket SlabShards::Begin(const KvShape& shape, const void* slab, std::span<const SlabRun> runs, bool load) {
  const uint64_t number = ++copies_;
  group_.Run([&](size_t r) {
    Rank& rank = ranks_[r];
    CopyTicket ticket = 0;
    if (load || rank.saves) {
      const int64_t first =
          rank.layers.begin * shape.layer_tile_bytes() + rank.kv_heads.begin * shape.HeadTileBytes(shape.head_dim);
      std::vector<SlabRun> own;
      for (const SlabRun& run : runs) {
        own.push_back({.offset = Share(r, run.offset),
                       .bytes = Share(r, run.bytes),
                       .host = run.host + first,
                       .host_layer_stride = shape.layer_tile_bytes(),
                       .host_tile_stride = shape.tile_bytes()});
      }
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
  return ranks_.front().memory->slab_chunk_bytes() * all_ / ranks_.front().size();
}

}  // namespace ringside
