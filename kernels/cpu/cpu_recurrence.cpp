// Recurrent mixers of the CPU backend. Rows are convolved independently, the products of keys are shared by the value
// heads of a key head, and then each value head computes all rows of a segment in order.
#include <algorithm>
#include <cstring>

#include "kernels/cpu/cpu_backend.h"
#include "kernels/recurrence_checks.h"

namespace ringside::cpu {
namespace {

constexpr int64_t kChunk = StateShape::kChunk;

void CheckTypes(const RecurrenceArgs& args) {
  for (const Tensor& x : {args.x, args.rates, args.betas, args.mixed, args.out}) CHECK(x.dtype == DType::kF32);
}

RecurrenceCall MakeRecurrenceCall(const RecurrenceArgs& args) {
  const RecurrenceShape& sizes = args.sizes;
  return {.corrects = sizes.corrects(),
          .decays_channels = sizes.mixer == Mixer::kKda,
          .has_state = sizes.mixer != Mixer::kConvolution,
          .alternates = sizes.alternates,
          .largest_beta = sizes.largest_beta,
          .key_heads = sizes.key_heads,
          .value_heads = sizes.value_heads,
          .key_size = sizes.key_size,
          .value_size = sizes.value_size,
          .channels = sizes.channels(),
          .kernel = sizes.kernel,
          .decays = sizes.decays(),
          .query_channel = sizes.query_channel(),
          .key_channel = sizes.key_channel(),
          .value_channel = sizes.value_channel(),
          .row_floats = sizes.row_floats(),
          .state_floats = sizes.state_floats(),
          .key_in_row = sizes.key_in_row(),
          .update_in_row = sizes.update_in_row(),
          .decay_in_row = sizes.decay_in_row(),
          .weights = args.weights,
          .x = args.x.f32(),
          .rates = args.rates.f32(),
          .betas = args.betas.f32(),
          .x_stride = args.x.stride,
          .rates_stride = args.rates.stride,
          .betas_stride = args.betas.stride,
          .mixed = args.mixed.f32(),
          .mixed_stride = args.mixed.stride,
          .out = args.out.f32(),
          .out_stride = args.out.stride};
}

/// Stores the convolution's inputs before a boundary.
void StoreWindow(const RecurrenceCall& call, const RecurrenceSegment& segment, const BoundaryWrite& write) {
  const size_t bytes = static_cast<size_t>(call.channels) * sizeof(float);
  for (int64_t i = 0; i + 1 < call.kernel; ++i) {
    const int64_t position = write.position - (call.kernel - 1) + i;
    const float* row = position < segment.position
                           ? segment.tail + position % kChunk * call.row_floats
                           : call.x + (segment.row + position - segment.position) * call.x_stride;
    std::memcpy(write.boundary + call.state_floats + i * call.channels, row, bytes);
  }
}

/// Stores the rows of the segment's last chunk; their u is stored already.
void StoreTail(const RecurrenceCall& call, const RecurrenceSegment& segment) {
  const int64_t end = segment.position + segment.rows;
  for (int64_t p = std::max(segment.position, StateShape::BoundaryBefore(end - 1)); p < end; ++p) {
    const int64_t row = segment.row + p - segment.position;
    float* to = segment.tail + p % kChunk * call.row_floats;
    const auto store = [&](int64_t at, const float* from, int64_t floats) {
      std::memcpy(to + at, from, static_cast<size_t>(floats) * sizeof(float));
    };
    store(0, call.x + row * call.x_stride, call.channels);
    if (!call.has_state) continue;
    const float* mixed = call.mixed + row * call.mixed_stride;
    store(call.key_in_row, mixed + call.key_channel, call.key_heads * call.key_size);
    store(call.decay_in_row, mixed + call.channels, call.decays);
  }
}

/// The segments' states in the layer.
void FindStates(const RecurrenceArgs& args, RecurrenceScratch* scratch) {
  const StateShape& state = args.shape.state;
  scratch->segments.clear(), scratch->writes.clear(), scratch->segment_of_row.clear();
  scratch->segment_of_row.resize(static_cast<size_t>(args.x.rows));
  for (const AttentionSegment& segment : args.segments) {
    auto* slab = static_cast<std::byte*>(segment.slab);
    const auto boundary = [&](int slot) {
      return reinterpret_cast<float*>(slab + state.BoundaryOffset(slot, args.layer));
    };
    std::fill_n(scratch->segment_of_row.begin() + segment.first_row, segment.rows, scratch->segments.size());
    scratch->segments.push_back({.row = segment.first_row,
                                 .rows = segment.rows,
                                 .position = segment.position,
                                 .boundary = segment.state_slot < 0 ? nullptr : boundary(segment.state_slot),
                                 .tail = reinterpret_cast<float*>(slab + state.TailOffset(args.layer, 0))});
    for (const StateWrite& write : segment.state_writes) {
      scratch->writes.push_back({write.position, boundary(write.slot)});
    }
  }
  const BoundaryWrite* writes = scratch->writes.data();
  for (size_t i = 0; i < scratch->segments.size(); ++i) {
    scratch->segments[i].writes = writes;
    writes += args.segments[i].state_writes.size();
  }
}

}  // namespace

void CpuBackend::Recur(const RecurrenceArgs& args) {
  CheckRecurrence(args);
  CheckTypes(args);
  FindStates(args, &recurrence_);
  const std::vector<RecurrenceSegment>& segments = recurrence_.segments;
  if (segments.empty()) return;
  RecurrenceCall call = MakeRecurrenceCall(args);
  const int64_t rows = args.x.rows, count = std::ssize(segments);
  const auto segment_of = [&](int64_t row) -> const RecurrenceSegment& {
    return segments[recurrence_.segment_of_row[static_cast<size_t>(row)]];
  };
  EachRow(rows, call.channels * (call.kernel + 16),
          [&](int64_t r) { kernels_.convolve(call, segment_of(r), r - segment_of(r).row); });
  if (call.has_state) {
    const auto products = static_cast<size_t>(rows * call.key_heads * 2 * kChunk);
    recurrence_.products.resize(std::max(recurrence_.products.size(), products));
    call.products = recurrence_.products.data();
    for (const RecurrenceSegment& segment : segments) kernels_.sum_decays(call, segment);
    EachRow(rows * call.key_heads, kChunk * call.key_size, [&](int64_t i) {
      const RecurrenceSegment& segment = segment_of(i / call.key_heads);
      kernels_.multiply_keys(call, segment, i / call.key_heads - segment.row, i % call.key_heads);
    });
    const int64_t cost = 2 * call.key_size * call.value_size * ((rows + count - 1) / count);
    EachRow(count * call.value_heads, cost, [&](int64_t i) {
      kernels_.update_state(call, segments[static_cast<size_t>(i / call.value_heads)], i % call.value_heads);
    });
  }
  EachRow(count, call.row_floats, [&](int64_t i) {
    const auto at = static_cast<size_t>(i);
    for (size_t w = 0; w < args.segments[at].state_writes.size(); ++w) {
      StoreWindow(call, segments[at], segments[at].writes[w]);
    }
    StoreTail(call, segments[at]);
  });
}

}  // namespace ringside::cpu
