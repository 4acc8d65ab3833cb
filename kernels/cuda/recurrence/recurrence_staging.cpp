#include "kernels/cuda/recurrence/recurrence_staging.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <vector>

#include "base/check.h"
#include "kernels/cuda/launch.h"

namespace ringside::cuda {
namespace {

constexpr int64_t kMinRunRows = 16;  // with fewer rows the chunk kernels are not faster

/// The rows of a step as the kernels consume them.
struct StagedRows {
  std::vector<StagedState> segments, parts, runs;
  std::vector<StagedBoundary> writes;
  std::vector<int32_t> segment_of_row;

  /// Adds boundaries; returns the index of the first.
  int32_t Add(std::span<const StateWrite> boundaries) {
    const auto first = static_cast<int32_t>(writes.size());
    for (const StateWrite& write : boundaries) writes.push_back({static_cast<int32_t>(write.position), write.slot});
    return first;
  }
};

StagedState StateOf(const AttentionSegment& s, StagedRows* rows) {
  const int64_t last = s.position + s.rows - 1, last_chunk = StateShape::BoundaryBefore(last);
  return {.slab = s.slab,
          .first_row = static_cast<int32_t>(s.first_row),
          .rows = static_cast<int32_t>(s.rows),
          .position = static_cast<int32_t>(s.position),
          .slot = s.state_slot,
          .first_write = rows->Add(s.state_writes),
          .writes = static_cast<int32_t>(s.state_writes.size()),
          .tail_from = static_cast<int32_t>(std::max(s.position, last_chunk)),
          .late = s.position % kStateChunk != 0 && last_chunk > s.position ? 1 : 0};
}

/// `has_runs`: whether there are kernels for runs of chunks.
StagedRows CutRows(const RecurrenceArgs& args, bool has_runs) {
  StagedRows rows;
  rows.segment_of_row.resize(static_cast<size_t>(args.x.rows));
  for (const AttentionSegment& s : args.segments) {
    if (s.rows == 0) continue;
    CHECK_LE(s.position + s.rows, int64_t{INT32_MAX});
    std::fill_n(rows.segment_of_row.begin() + s.first_row, s.rows, static_cast<int32_t>(rows.segments.size()));
    StagedState segment = StateOf(s, &rows);
    if (has_runs && s.rows >= kMinRunRows) {
      segment.late = 1;
      rows.runs.push_back(segment);
    } else {
      rows.parts.push_back(segment);
    }
    rows.segments.push_back(segment);
  }
  // Blocks that reach a boundary take longest, so they start first.
  std::ranges::stable_partition(rows.parts, [](const StagedState& s) { return s.writes > 0; });
  return rows;
}

/// A layer's part of the plan: sizes and offsets.
RecurrencePlan PlanOf(const RecurrenceArgs& args) {
  const RecurrenceShape& sizes = args.sizes;
  const StateShape& state = args.shape.state;
  const auto narrow = [](int64_t value) { return static_cast<int32_t>(value); };
  RecurrencePlan plan;
  plan.x = args.x, plan.rates = args.rates, plan.betas = args.betas, plan.mixed = args.mixed, plan.out = args.out;
  const RecurrenceWeights& weights = args.weights;
  plan.convolution = weights.convolution, plan.convolution_bias = weights.convolution_bias;
  plan.rate_bias = weights.rate_bias, plan.rate = weights.rate, plan.skip = weights.skip;
  plan.largest_beta = sizes.largest_beta;
  plan.has_state = sizes.mixer != Mixer::kConvolution ? 1 : 0;
  plan.corrects = sizes.corrects() ? 1 : 0;
  plan.channel_decays = sizes.mixer == Mixer::kKda ? 1 : 0;
  plan.alternates = sizes.alternates ? 1 : 0;
  plan.key_heads = narrow(sizes.key_heads), plan.value_heads = narrow(sizes.value_heads);
  plan.key_size = narrow(sizes.key_size), plan.value_size = narrow(sizes.value_size);
  plan.channels = narrow(sizes.channels()), plan.kernel = narrow(sizes.kernel);
  plan.decays = plan.has_state != 0 ? narrow(sizes.decays()) : 0;
  plan.query_channel = narrow(sizes.query_channel()), plan.key_channel = narrow(sizes.key_channel());
  plan.value_channel = narrow(sizes.value_channel());
  plan.row_floats = narrow(sizes.row_floats()), plan.key_in_row = narrow(sizes.key_in_row());
  plan.update_in_row = narrow(sizes.update_in_row()), plan.decay_in_row = narrow(sizes.decay_in_row());
  plan.state_floats = sizes.state_floats();
  plan.slot_bytes = state.slot_bytes();
  plan.boundary_offset = state.BoundaryOffset(0, args.layer);
  plan.tail_offset = state.TailOffset(args.layer, 0);
  const bool whole_vectors = sizes.key_size % 4 == 0 && args.mixed.stride % 4 == 0;
  plan.aligned = whole_vectors && reinterpret_cast<uintptr_t>(args.mixed.data) % 16 == 0 ? 1 : 0;
  return plan;
}

}  // namespace

void RecurrenceStaging::StageSegments(const RecurrenceArgs& args, bool has_runs) {
  for (const AttentionSegment& s : args.segments) {
    memory_->Await(s.slab, static_cast<size_t>(args.shape.state.bytes()));
  }
  const StagedRows rows = CutRows(args, has_runs);
  // Room for any positions of segments with these numbers of rows: inputs staged later keep their places from step to
  // step.
  size_t most_writes = 0;
  for (const StagedState& s : rows.segments) {
    most_writes += static_cast<size_t>((s.rows + kStateChunk - 1) / kStateChunk);
  }
  CHECK_LE(rows.writes.size(), most_writes);
  // One allocation: a rewind of the staging buffer must not happen between its parts.
  const size_t state_bytes = 2 * rows.segments.size() * sizeof(StagedState),
               write_bytes = most_writes * sizeof(StagedBoundary),
               row_bytes = rows.segment_of_row.size() * sizeof(int32_t);
  const Staging::Place place = recorder_->ReserveStaging(state_bytes + write_bytes + row_bytes);
  auto* host = static_cast<std::byte*>(place.host);
  auto* device = static_cast<std::byte*>(place.device);
  const auto put = [&](const auto& values, size_t room = 0) {
    const size_t bytes = values.size() * sizeof(values[0]);
    if (bytes > 0) std::memcpy(host, values.data(), bytes);
    const void* at = device;
    host += std::max(bytes, room), device += std::max(bytes, room);
    return at;
  };
  segments_ = {};
  // The states come first: they are aligned to 8 bytes.
  segments_.segments = static_cast<const StagedState*>(put(rows.segments));
  segments_.parts = static_cast<const StagedState*>(put(rows.parts));
  segments_.runs = static_cast<const StagedState*>(put(rows.runs));
  segments_.writes = static_cast<const StagedBoundary*>(put(rows.writes, write_bytes));
  segments_.segment_of_row = static_cast<const int32_t*>(put(rows.segment_of_row));
  segments_.segment_count = static_cast<int32_t>(rows.segments.size());
  segments_.part_count = static_cast<int32_t>(rows.parts.size());
  segments_.run_count = static_cast<int32_t>(rows.runs.size());
  for (const StagedState& run : rows.runs) {
    segments_.run_chunks =
        std::max(segments_.run_chunks, (run.position % kStateChunk + run.rows + kStateChunk - 1) / kStateChunk);
  }
  for (const StagedState& part : rows.parts) segments_.part_rows = std::max(segments_.part_rows, part.rows);
  segments_.late = std::ranges::any_of(rows.segments, [](const StagedState& s) { return s.late != 0; }) ? 1 : 0;
}

RecurrencePlan RecurrenceStaging::PlanFor(const RecurrenceArgs& args) {
  RecurrencePlan plan = PlanOf(args);
  if (args.step == 0 || args.step != step_ || epoch_ != recorder_->staging_epoch()) {
    StageSegments(args, !fixed_order_ && HasChunkKernels(recorder_->launcher(), plan));
    step_ = args.step, epoch_ = recorder_->staging_epoch();
  }
  plan.segments = segments_.segments, plan.segment_of_row = segments_.segment_of_row;
  plan.writes = segments_.writes;
  plan.parts = segments_.parts, plan.runs = segments_.runs;
  plan.segment_count = segments_.segment_count, plan.part_count = segments_.part_count;
  plan.run_count = segments_.run_count, plan.run_chunks = segments_.run_chunks;
  plan.part_rows = segments_.part_rows, plan.late = segments_.late;
  return plan;
}

}  // namespace ringside::cuda
