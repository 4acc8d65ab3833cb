#include "tools/sim/sim_device.h"

#include <cstring>
#include <limits>

#include "base/check.h"
#include "engine/model/model_facts.h"
#include "engine/model/shared_prefixes.h"

namespace ringside {
namespace {

int64_t Ns(double ms) { return static_cast<int64_t>(ms * 1e6); }

// Through a driver's staging buffers, into memory that is not prefaulted.
constexpr double kPageableBytesPerMs = 1.6e6;

// Ranges of host memory, by start address.
std::mutex pinned_mutex;
std::map<const std::byte*, size_t> pinned;

std::unique_ptr<Backend> MakeHost() {
  auto made = MakeCpuBackend({.threads = 1});
  CHECK(made.ok());
  return std::move(*made);
}

// Number of keys that the query at position t attends to.
int64_t Keys(const Ring& ring, int64_t t) { return ring.PinnedQueryPosition(t) + 1; }

// Number of keys that decoding parts read once for all: those of the common first rows, if that saves enough reads
// (kernels/cuda). The load has one shared prefix at most, so the first part represents its group.
int64_t KeysReadOnce(std::span<const StepPart> parts, double key_bytes) {
  constexpr double kMinSavedBytes = 24 << 20;  // per layer
  const KvCache* first = nullptr;
  int64_t common = std::numeric_limits<int64_t>::max(), others = 0;
  for (const StepPart& part : parts) {
    if (std::ssize(part.tokens) > SharedPrefixes::kMaxRows) continue;
    if (first == nullptr) {
      first = part.cache;
      continue;
    }
    const int64_t rows = first->ring().origins().Compare(part.cache->ring().origins()).common;
    if (rows < SharedPrefixes::kMinTokens) continue;
    common = std::min(common, rows);
    ++others;
  }
  const bool saves = others > 0 && static_cast<double>(others * common) * key_bytes >= kMinSavedBytes;
  return saves ? others * common : 0;
}

StepWork WorkOf(std::span<const StepPart> parts, const ModelSpec& spec) {
  StepWork work;
  for (const StepPart& part : parts) {
    const Ring& ring = part.cache->ring();
    const auto rows = static_cast<int64_t>(part.tokens.size());
    const int64_t last = Keys(ring, ring.next() - 1);
    work.rows += rows;
    work.keys += last;
    ++(rows == 1 ? work.decoding : work.prompts);
    if (rows > 1) work.products += 0.5 * static_cast<double>(rows * (Keys(ring, ring.next() - rows) + last));
  }
  const auto key_bytes = static_cast<double>(2 * 2 * spec.kv_heads * spec.head_dim);
  const int64_t saved = KeysReadOnce(parts, key_bytes);
  work.keys -= saved;
  work.shares_prefix = saved > 0;
  return work;
}

}  // namespace

SimBackend::SimBackend(const CostModel& cost, double scale, ManualClock& clock)
    : LaggingBackend(MakeHost()), cost_(cost), scale_(scale), clock_(clock) {}

bool SimBackend::PinHost(void* data, size_t bytes) {
  pins_ = true;
  std::lock_guard lock(pinned_mutex);
  pinned[static_cast<std::byte*>(data)] = bytes;
  return true;
}

double SimBackend::Bytes(std::span<const SlabRun> runs) const {
  int64_t bytes = 0;
  for (const SlabRun& run : runs) bytes += run.bytes;
  return scale_ * static_cast<double>(bytes);
}

double SimBackend::PageableBytes(std::span<const SlabRun> runs) const {
  if (!pins_) return 0;  // an engine without pinned memory: not the subject of its load
  std::lock_guard lock(pinned_mutex);
  int64_t bytes = 0;
  for (const SlabRun& run : runs) {
    const auto after = pinned.upper_bound(run.host);
    const bool is_pinned =
        after != pinned.begin() && run.host + run.bytes <= std::prev(after)->first + std::prev(after)->second;
    if (!is_pinned) bytes += run.bytes;
  }
  return scale_ * static_cast<double>(bytes);
}

CopyTicket SimBackend::Queue(CopyTicket ticket, Copy copy, double ms, double pageable, int64_t* free_ns) {
  // It sees the writes of earlier steps.
  *free_ns = std::max({*free_ns, step_free_ns_, clock_.MonotonicNs()}) + Ns(ms + pageable / kPageableBytesPerMs);
  copy.end_ns = *free_ns;
  copies_[ticket] = copy;
  int64_t saving = 0;
  for (const auto& [other, one] : copies_) saving += one.end_ns > clock_.MonotonicNs() ? one.saved_bytes : 0;
  counts_.most_saving_bytes = std::max(counts_.most_saving_bytes, saving);
  counts_.pageable_bytes += static_cast<int64_t>(pageable);
  if (pageable > 0) Block(copy.end_ns);
  return ticket;
}

void SimBackend::Block(int64_t until_ns) {
  counts_.blocked_ns += std::max<int64_t>(0, until_ns - clock_.MonotonicNs());
  AdvanceTo(clock_, until_ns);
}

CopyTicket SimBackend::SaveSlab(const KvShape& shape, const void* slab, std::span<const SlabRun> runs) {
  const double ms = cost_.save_ms + Bytes(runs) / cost_.save_bytes_per_ms;
  const Copy copy{slab, 0, static_cast<int64_t>(Bytes(runs))};
  return Queue(LaggingBackend::SaveSlab(shape, slab, runs), copy, ms, PageableBytes(runs), &save_free_ns_);
}

CopyTicket SimBackend::LoadSlab(const KvShape& shape, void* slab, std::span<const SlabRun> runs) {
  const double ms = cost_.load_ms + Bytes(runs) / cost_.load_bytes_per_ms;
  return Queue(LaggingBackend::LoadSlab(shape, slab, runs), {slab, 0, 0}, ms, PageableBytes(runs), &load_free_ns_);
}

bool SimBackend::CopyDone(CopyTicket ticket) {
  const auto copy = copies_.find(ticket);
  if (copy == copies_.end()) return true;
  if (clock_.MonotonicNs() < copy->second.end_ns) return false;
  LaggingBackend::WaitForCopy(ticket);
  copies_.erase(copy);
  return true;
}

void SimBackend::WaitForCopy(CopyTicket ticket) {
  if (const auto copy = copies_.find(ticket); copy != copies_.end()) Block(copy->second.end_ns);
  CHECK(CopyDone(ticket));
}

int64_t SimBackend::RunStep(double ms, std::span<const StepPart> parts) {
  int64_t end = std::max(clock_.MonotonicNs(), step_free_ns_) + Ns(ms);
  // Each layer waits for its own rows: those of the last one arrive last.
  for (const auto& [ticket, copy] : copies_) {
    const auto uses = [&](const StepPart& part) { return part.cache->slab() == copy.slab; };
    if (std::ranges::any_of(parts, uses)) {
      end = std::max(end, copy.end_ns + Ns(ms / static_cast<double>(cost_.spec.layers)));
    }
  }
  return step_free_ns_ = end;
}

NetworkShape SimNetwork::shape() const {
  NetworkShape shape = ForwardingNetwork::shape();
  shape.attention_context = ShapeOf(cost_.spec).attention_context;
  return shape;
}

void SimNetwork::Before(std::span<const StepPart> parts) {
  for (const StepPart& part : parts) backend_.UseSlab(part.cache->slab());
}

void SimNetwork::After(std::span<const StepPart> parts) {
  clock_.AdvanceNs(Ns(cost_.begin + cost_.begin_row * static_cast<double>(parts.size())));
  const double ms = cost_.StepMs(WorkOf(parts, cost_.spec));
  busy_ms_ += ms;
  ends_ns_.push_back(backend_.RunStep(ms, parts));
}

void SimNetwork::Finish(std::span<SampledToken> chosen) {
  CHECK(!ends_ns_.empty());
  AdvanceTo(clock_, ends_ns_.front());
  ends_ns_.pop_front();
  ForwardingNetwork::Finish(chosen);
  clock_.AdvanceNs(Ns(cost_.finish + cost_.finish_row * static_cast<double>(chosen.size())));
}

void FreeNetwork::BeginDeferred(std::span<const StepPart> parts) {
  for (const StepPart& part : parts) {
    const KvCache& cache = *part.cache;
    const KvShape& shape = cache.shape();
    int64_t position = part.cache->ring().Append(static_cast<int64_t>(part.tokens.size()));
    for (const TokenId token : part.tokens) {
      const int64_t slot = shape.Slot(position, cache.ring().window().pinned), lane = slot % KvShape::kTile;
      std::byte* values = static_cast<std::byte*>(cache.slab()) + shape.TileOffset(0, slot / KvShape::kTile, 0) +
                          shape.half_tile_bytes() + lane * shape.head_dim * shape.element_bytes();
      const int64_t row[2] = {position++, token};
      std::memcpy(values, row, sizeof row);
    }
  }
}

void FreeNetwork::Finish(std::span<SampledToken> chosen) {
  CHECK_EQ(begun_.front(), chosen.size());
  begun_.pop_front();
  for (SampledToken& token : chosen) token = {.id = 1};
}

}  // namespace ringside
