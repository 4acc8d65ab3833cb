// One recurrent mixer (kernels/recurrence.h) as its kernels consume it. Values that change from step to step (slabs,
// positions, boundaries) are in device memory at stable addresses, so that a captured graph can be replayed. Plain
// data; sizes and offsets are in floats unless noted.
#pragma once

#include <cstdint>

#include "kernels/recurrence.h"
#include "kernels/state_shape.h"
#include "kernels/tensor.h"

namespace ringside::cuda {

constexpr int kStateChunk = StateShape::kChunk;

/// A segment of the step.
struct StagedState {
  void* slab;
  int32_t first_row, rows;
  int32_t position;             // of the first row
  int32_t slot;                 // of the boundary before it; -1: a state of zeros
  int32_t first_write, writes;  // in RecurrencePlan::writes
  int32_t tail_from;            // the position from which on rows are stored in the tail
  // A last kernel stores the rows of the tail, except for u: the segment's rows may replace rows of the tail that its
  // first ones still read, or it is a run.
  int32_t late;
};
/// A boundary that a segment stores.
struct StagedBoundary {
  int32_t position, slot;
};

struct RecurrencePlan {
  Tensor x, rates, betas;
  Tensor mixed;  // [T, channels + decays + value_heads] float32: q, k and v; G; b
  Tensor out;
  // RecurrenceWeights
  const float* convolution = nullptr;
  const float* convolution_bias = nullptr;
  const float* rate_bias = nullptr;
  const float* rate = nullptr;
  const float* skip = nullptr;
  float largest_beta = 1;
  int32_t has_state = 0, corrects = 0, channel_decays = 0, alternates = 0;
  int32_t key_heads = 0, value_heads = 0, key_size = 0, value_size = 0;
  int32_t channels = 0, kernel = 0, decays = 0;
  int32_t query_channel = 0, key_channel = 0, value_channel = 0;
  int32_t row_floats = 0, key_in_row = 0, update_in_row = 0, decay_in_row = 0;
  int64_t state_floats = 0;
  int64_t slot_bytes = 0, boundary_offset = 0,
          tail_offset = 0;                  // bytes; offsets of the layer in a slot and in the slab
  const StagedState* segments = nullptr;    // [segment_count]
  const int32_t* segment_of_row = nullptr;  // [T]
  const StagedBoundary* writes = nullptr;
  // The segments by kernel: with any rows; runs of chunks.
  const StagedState* parts = nullptr;  // [part_count]
  const StagedState* runs = nullptr;   // [run_count]
  int32_t segment_count = 0, part_count = 0, run_count = 0;
  int32_t run_chunks = 0;  // of the longest run
  int32_t part_rows = 0;   // of the longest part
  int32_t late = 0;        // any StagedState::late
  int32_t aligned = 0;     // heads' q, k, v and u start at multiples of 16 bytes in `mixed` and in the tail
  // No kernel since the last synchronization has written this layer's state, so it may be read before the preceding
  // kernel has ended.
  int32_t early = 0;

  friend bool operator==(const RecurrencePlan&, const RecurrencePlan&) = default;
};

}  // namespace ringside::cuda
