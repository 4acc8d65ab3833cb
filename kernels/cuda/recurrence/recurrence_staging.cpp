#include "kernels/cuda/recurrence/recurrence_staging.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/check.h"

namespace ringside::cuda {
namespace {

/// Whether the segment's last rows replace rows of the tail that its first ones read.
bool ReplacesTail(const AttentionSegment& s) {
  return s.position % kStateChunk != 0 && s.rows > 1 &&
         StateShape::BoundaryBefore(s.position + s.rows - 1) > s.position;
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

void RecurrenceStaging::StageSegments(const RecurrenceArgs& args) {
  const StateShape& state = args.shape.state;
  std::vector<StagedState> segments;
  std::vector<StagedBoundary> writes;
  std::vector<int32_t> segment_of_row(static_cast<size_t>(args.x.rows));
  segments_ = {.single = 1};
  size_t most_writes = 0;  // for any positions, so that what is staged later keeps its place from step to step
  for (const AttentionSegment& s : args.segments) {
    if (s.rows == 0) continue;
    memory_->Await(s.slab, static_cast<size_t>(state.bytes()));
    CHECK_LE(s.position + s.rows, int64_t{INT32_MAX});
    const bool late = ReplacesTail(s);
    std::fill_n(segment_of_row.begin() + s.first_row, s.rows, static_cast<int32_t>(segments.size()));
    segments.push_back({.slab = s.slab,
                        .first_row = static_cast<int32_t>(s.first_row),
                        .rows = static_cast<int32_t>(s.rows),
                        .position = static_cast<int32_t>(s.position),
                        .slot = s.state_slot,
                        .first_write = static_cast<int32_t>(writes.size()),
                        .writes = static_cast<int32_t>(s.state_writes.size()),
                        .late = late ? 1 : 0,
                        .reserved = 0});
    for (const StateWrite& write : s.state_writes) {
      writes.push_back({static_cast<int32_t>(write.position), write.slot});
    }
    most_writes += static_cast<size_t>(s.rows + kStateChunk - 1) / kStateChunk;
    if (s.rows > 1) segments_.single = 0;
    if (late) segments_.late = 1;
  }
  CHECK_LE(writes.size(), most_writes);
  // One allocation: a rewind of the staging buffer must not happen between its parts.
  const size_t segment_bytes = segments.size() * sizeof(StagedState),
               write_bytes = most_writes * sizeof(StagedBoundary), row_bytes = segment_of_row.size() * sizeof(int32_t);
  const Staging::Place place = recorder_->ReserveStaging(segment_bytes + write_bytes + row_bytes);
  auto* host = static_cast<std::byte*>(place.host);
  auto* device = static_cast<std::byte*>(place.device);
  const auto put = [&](const auto& values, size_t room) {
    if (!values.empty()) std::memcpy(host, values.data(), values.size() * sizeof(values[0]));
    const void* at = device;
    host += room, device += room;
    return at;
  };
  segments_.segments = static_cast<const StagedState*>(put(segments, segment_bytes));
  segments_.writes = static_cast<const StagedBoundary*>(put(writes, write_bytes));
  segments_.segment_of_row = static_cast<const int32_t*>(put(segment_of_row, row_bytes));
  segments_.segment_count = static_cast<int32_t>(segments.size());
}

RecurrencePlan RecurrenceStaging::PlanFor(const RecurrenceArgs& args) {
  if (args.step == 0 || args.step != step_ || epoch_ != recorder_->staging_epoch()) {
    StageSegments(args);
    step_ = args.step, epoch_ = recorder_->staging_epoch();
  }
  RecurrencePlan plan = PlanOf(args);
  plan.segments = segments_.segments, plan.segment_of_row = segments_.segment_of_row;
  plan.writes = segments_.writes;
  plan.segment_count = segments_.segment_count;
  plan.single = segments_.single, plan.late = segments_.late;
  return plan;
}

}  // namespace ringside::cuda
