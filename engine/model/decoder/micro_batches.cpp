#include "engine/model/decoder/micro_batches.h"

#include <algorithm>
#include <optional>

namespace ringside {
namespace {

constexpr int64_t kMaxPerStage = 4;
constexpr int64_t kNear = 4;  // a border moves by at most the rows of a micro-batch / kNear

/// The row's boundary, in the slot that a part of the segment from this row on reads; nullopt if no slot will have it.
std::optional<StateWrite> BoundaryOf(const AttentionSegment& segment, int64_t row) {
  const int64_t boundary = StateShape::BoundaryBefore(segment.position + row - segment.first_row);
  if (boundary <= segment.position) return StateWrite{boundary, segment.state_slot};
  const auto found = std::ranges::find(segment.state_writes, boundary, &StateWrite::position);
  return found == segment.state_writes.end() ? std::nullopt : std::optional(*found);
}

/// The row nearest to `row` before which a recurrent state is stored, or a sequence begins.
int64_t NearestStored(int64_t row, std::span<const AttentionSegment> segments) {
  int64_t nearest = 0;
  for (const AttentionSegment& segment : segments) {
    for (int64_t r = segment.first_row; r < segment.first_row + segment.rows; ++r) {
      if (std::abs(r - row) < std::abs(nearest - row) && BoundaryOf(segment, r)) nearest = r;
    }
  }
  return nearest;
}

/// The first rows of all micro-batches, and the number of rows.
std::vector<int64_t> Borders(int64_t rows, int64_t count, std::span<const AttentionSegment> segments, bool recurrent) {
  std::vector<int64_t> borders{0};
  for (int64_t i = 1; i < count; ++i) {
    const int64_t even = rows * i / count;
    int64_t nearest = 0;
    for (const AttentionSegment& segment : segments) {
      if (std::abs(segment.first_row - even) < std::abs(nearest - even)) nearest = segment.first_row;
    }
    int64_t border = std::abs(nearest - even) <= rows / count / kNear ? nearest : even;
    if (recurrent) border = NearestStored(border, segments);
    if (border > borders.back()) borders.push_back(border);
  }
  borders.push_back(rows);
  return borders;
}

}  // namespace

int64_t CountMicroBatches(int64_t rows, int stages, int64_t saturating_rows) {
  if (stages == 1) return 1;
  return std::clamp<int64_t>(rows / saturating_rows, 1, kMaxPerStage * stages);
}

int64_t LargestMicroBatch(int64_t rows, int stages, int64_t saturating_rows) {
  if (stages == 1) return rows;
  const int64_t even = std::max(2 * saturating_rows, rows / (kMaxPerStage * stages) + 1);
  return std::min(rows, even + 2 * (even / kNear));
}

std::vector<MicroBatch> SplitIntoMicroBatches(const StepPlan& plan, std::span<const AttentionSegment> segments,
                                              std::span<const int64_t> pairs, int stages, int64_t saturating_rows,
                                              bool recurrent) {
  const std::vector<int64_t> borders =
      Borders(plan.rows(), CountMicroBatches(plan.rows(), stages, saturating_rows), segments, recurrent);
  std::vector<MicroBatch> batches;
  for (size_t i = 0; i + 1 < borders.size(); ++i) {
    const int64_t begin = borders[i], end = borders[i + 1];
    MicroBatch& batch = batches.emplace_back();
    batch.first_row = begin;
    batch.rows = end - begin;
    for (size_t rotation = 0; rotation < plan.angles.size(); ++rotation) {
      const RopeAngles& all = plan.angles[rotation];
      const int64_t angles = begin * pairs[rotation];
      batch.angles.push_back(
          {all.own_cos + angles, all.own_sin + angles, all.pinned_cos + angles, all.pinned_sin + angles});
    }
    for (AttentionSegment segment : segments) {
      const int64_t first = std::max(begin, segment.first_row), last = std::min(end, segment.first_row + segment.rows),
                    skipped = first - segment.first_row;
      if (first >= last) continue;
      if (recurrent) {
        segment.state_slot = BoundaryOf(segment, first).value().slot;
        const auto writes = segment.state_writes;
        const auto after = std::ranges::upper_bound(writes, segment.position + skipped, {}, &StateWrite::position);
        const int64_t next = segment.position + skipped + last - first;
        const auto beyond = std::ranges::upper_bound(writes, next, {}, &StateWrite::position);
        segment.state_writes = {after, beyond};
      }
      segment.first_row = first - begin;
      segment.rows = last - first;
      segment.position += skipped;
      segment.first_live += skipped;
      if (segment.last_seen != nullptr) segment.last_seen += skipped;
      batch.segments.push_back(segment);
    }
  }
  return batches;
}

}  // namespace ringside
