// The state of a recurrent mixer (kernels/recurrence.h). Every output element is one chain of multiply-adds in a fixed
// order, the same for a single row as for a chunk: first over key channels of the boundary state, then over the chunk's
// rows. A lane is a value channel. Included by one file per instruction set.
// THREAD: any.
#pragma once

#include "kernels/cpu/convolution_inl.h"

namespace ringside::cpu::RINGSIDE_LANES {
namespace {

/// One value head's rows of a chunk: those before the step, from the tail, then the step's.
struct StateChunk {
  int64_t first, offset, rows;                 // first row in the segment; its number in the chunk; rows of the step
  const float* keys[kStateChunk];              // [key_size] each
  const float* decays[kStateChunk];            // G: one value, or [key_size]
  const float* updates[kStateChunk];           // u [value_size]
  alignas(64) float decay[kStateChunk];        // G, if it is one value
  float state_decay[kStateChunk];              // e^G_t of the step's rows; 1 if it multiplies key channels
  float weights[2][kStateChunk][kStateChunk];  // of u_i in u_t, in o_t
  float own_updates[kStateChunk * RecurrenceShape::kMaxSize];    // u of the step's rows
  float from_state[2][kStateChunk * RecurrenceShape::kMaxSize];  // S_0^T k_t, S_0^T q_t
  float decayed[2][kStateChunk * RecurrenceShape::kMaxSize];     // k_t, q_t times e^G_t, with kKda
  float folded[kStateChunk * RecurrenceShape::kMaxSize];         // k_i times e^(G_C - G_i)
};

LANES_INLINE const float* MixedRow(const RecurrenceCall& call, const RecurrenceSegment& segment, int64_t row) {
  return call.mixed + (segment.row + row) * call.mixed_stride;
}

// ---- products of keys -----------------------------------------------------------------------------------------------

/// Products of a row's k and q with M keys.
template <int M>
LANES_INLINE void MultiplyKeysBy(const RecurrenceCall& call, const float* const* keys, const float* const* decays,
                                 const float* key, const float* query, const float* decay, float* by_key,
                                 float* by_query) {
  F32x16 with_key[M], with_query[M];
  LANES_UNROLL for (int m = 0; m < M; ++m) with_key[m] = with_query[m] = Zero();
  EachRun(call.key_size, [&](int64_t i, int64_t c) LANES_LAMBDA {
    const F32x16 k = LoadRun(key + i, c), q = LoadRun(query + i, c);
    LANES_UNROLL for (int m = 0; m < M; ++m) {
      F32x16 other = LoadRun(keys[m] + i, c);
      if (call.decays_channels) other = Mul(other, Exp(Sub(LoadRun(decay + i, c), LoadRun(decays[m] + i, c))));
      if (call.corrects) with_key[m] = Fma(other, k, with_key[m]);
      with_query[m] = Fma(other, q, with_query[m]);
    }
  });
  LANES_UNROLL for (int m = 0; m < M; ++m) by_key[m] = Sum(with_key[m]), by_query[m] = Sum(with_query[m]);
}

void MultiplyKeys(const RecurrenceCall& call, const RecurrenceSegment& segment, int64_t row, int64_t key_head) {
  const int64_t position = segment.position + row, offset = position % kStateChunk, at = key_head * call.key_size;
  const float* keys[kStateChunk];
  const float* decays[kStateChunk];
  for (int64_t i = 0; i <= offset; ++i) {
    const bool own = i >= offset - row;
    const float* other = own ? MixedRow(call, segment, row - offset + i) : TailRow(call, segment, i);
    keys[i] = other + (own ? call.key_channel : call.key_in_row) + at;
    decays[i] = other + (own ? call.channels : call.decay_in_row) + at;
  }
  const float* query = MixedRow(call, segment, row) + call.query_channel + at;
  float* by_key = call.products + ((segment.row + row) * call.key_heads + key_head) * 2 * kStateChunk;
  float* by_query = by_key + kStateChunk;
  int64_t i = 0;
  for (; i + 4 <= offset + 1; i += 4) {
    MultiplyKeysBy<4>(call, keys + i, decays + i, keys[offset], query, decays[offset], by_key + i, by_query + i);
  }
  for (; i <= offset; ++i) {
    MultiplyKeysBy<1>(call, keys + i, decays + i, keys[offset], query, decays[offset], by_key + i, by_query + i);
  }
}

// ---- products with the boundary state -------------------------------------------------------------------------------

/// y[m] = S^T x[m] of M rows, in N vectors of columns from `column` on.
template <int M, int N>
LANES_PRODUCT void MultiplyState(const RecurrenceCall& call, const float* state, const float* const* x, float* const* y,
                                 int64_t column) {
  F32x16 acc[M][N];
  LANES_UNROLL for (int m = 0; m < M; ++m) { LANES_UNROLL for (int j = 0; j < N; ++j) acc[m][j] = Zero(); }
  const float* s = state + column;
  for (int64_t c = 0; c < call.key_size; ++c, s += call.value_size) {
    F32x16 v[N];
    LANES_UNROLL for (int j = 0; j < N; ++j) v[j] = Load(s + 16 * j);
    LANES_UNROLL for (int m = 0; m < M; ++m) {
      const F32x16 a = Set(x[m][c]);
      LANES_UNROLL for (int j = 0; j < N; ++j) acc[m][j] = Fma(v[j], a, acc[m][j]);
    }
  }
  LANES_UNROLL for (int m = 0; m < M; ++m) {
    LANES_UNROLL for (int j = 0; j < N; ++j) Store(y[m] + column + 16 * j, acc[m][j]);
  }
}

template <int N>
void MultiplyStateColumns(const RecurrenceCall& call, const float* state, const float* const* x, float* const* y,
                          int64_t count, int64_t column) {
  int64_t i = 0;
  if constexpr (kWideRegisters) {
    for (; i + 6 <= count; i += 6) MultiplyState<6, N>(call, state, x + i, y + i, column);
  }
  for (; i + 2 <= count; i += 2) MultiplyState<2, N>(call, state, x + i, y + i, column);
  for (; i < count; ++i) MultiplyState<1, N>(call, state, x + i, y + i, column);
}

constexpr int kStateVectors = kWideRegisters ? 4 : 2;

void ReadState(const RecurrenceCall& call, const float* state, const float* const* keys, const float* const* queries,
               StateChunk* chunk) {
  const float* x[2 * kStateChunk];
  float* y[2 * kStateChunk];
  int64_t count = 0;
  for (int64_t r = 0; r < chunk->rows; ++r) {
    if (call.corrects) x[count] = keys[r], y[count++] = chunk->from_state[0] + r * call.value_size;
    x[count] = queries[r], y[count++] = chunk->from_state[1] + r * call.value_size;
  }
  if (state == nullptr) {
    for (int64_t i = 0; i < count; ++i) __builtin_memset(y[i], 0, static_cast<size_t>(call.value_size) * sizeof(float));
    return;
  }
  int64_t column = 0;
  for (; column + 16 * kStateVectors <= call.value_size; column += 16 * kStateVectors) {
    MultiplyStateColumns<kStateVectors>(call, state, x, y, count, column);
  }
  for (; column < call.value_size; column += 16) MultiplyStateColumns<1>(call, state, x, y, count, column);
}

// ---- rows of a chunk ------------------------------------------------------------------------------------------------

/// u and o of the step's rows, in N vectors of columns from `column` on.
template <int N>
LANES_PRODUCT void UpdateColumns(const RecurrenceCall& call, const RecurrenceSegment& segment, int64_t head,
                                 int64_t column, StateChunk* chunk) {
  for (int64_t r = 0; r < chunk->rows; ++r) {
    const int64_t t = chunk->offset + r, at = r * call.value_size + column, in_row = head * call.value_size + column;
    const float* mixed = MixedRow(call, segment, chunk->first + r);
    const float* value = mixed + call.value_channel + in_row;
    const F32x16 decay = Set(chunk->state_decay[r]);
    F32x16 u[N], o[N];
    LANES_UNROLL for (int j = 0; j < N; ++j) {
      u[j] = Load(value + 16 * j);
      if (call.corrects) u[j] = MinusFma(decay, Load(chunk->from_state[0] + at + 16 * j), u[j]);
      o[j] = Mul(decay, Load(chunk->from_state[1] + at + 16 * j));
    }
    for (int64_t i = 0; i < t; ++i) {
      const F32x16 a = Set(chunk->weights[0][r][i]), b = Set(chunk->weights[1][r][i]);
      LANES_UNROLL for (int j = 0; j < N; ++j) {
        const F32x16 update = Load(chunk->updates[i] + column + 16 * j);
        if (call.corrects) u[j] = MinusFma(a, update, u[j]);
        o[j] = Fma(b, update, o[j]);
      }
    }
    const F32x16 weight = Set(mixed[call.channels + call.decays + head]), own = Set(chunk->weights[1][r][t]);
    float* out = call.out + (segment.row + chunk->first + r) * call.out_stride + in_row;
    LANES_UNROLL for (int j = 0; j < N; ++j) {
      u[j] = Mul(weight, u[j]);
      Store(chunk->own_updates + at + 16 * j, u[j]);
      o[j] = Fma(own, u[j], o[j]);
      if (call.weights.skip != nullptr) o[j] = Fma(Set(call.weights.skip[head]), Load(value + 16 * j), o[j]);
      Store(out + 16 * j, o[j]);
    }
  }
}

/// The factors of u_i in the rows' u and o.
LANES_INLINE void WeighUpdates(const RecurrenceCall& call, const RecurrenceSegment& segment, int64_t key_head,
                               StateChunk* chunk) {
  for (int64_t r = 0; r < chunk->rows; ++r) {
    const int64_t t = chunk->offset + r, row = segment.row + chunk->first + r;
    const float* by_key = call.products + (row * call.key_heads + key_head) * 2 * kStateChunk;
    for (int64_t i = 0; i <= t; i += 16) {
      F32x16 a = Load(by_key + i), b = Load(by_key + kStateChunk + i);
      if (!call.decays_channels) {
        const F32x16 decay = Exp(Sub(Set(chunk->decay[t]), Load(chunk->decay + i)));
        a = Mul(decay, a), b = Mul(decay, b);
      }
      Store(chunk->weights[0][r] + i, a);
      Store(chunk->weights[1][r] + i, b);
    }
  }
}

LANES_INLINE float ExpOf(float x) {
  float lanes[16];
  Store(lanes, Exp(Set(x)));
  return lanes[0];
}

/// Where the chunk's rows are.
LANES_INLINE void FindRows(const RecurrenceCall& call, const RecurrenceSegment& segment, int64_t head, int64_t key_head,
                           StateChunk* chunk) {
  const int64_t key = key_head * call.key_size, decay = call.decays_channels ? key : head;
  for (int64_t i = 0; i < kStateChunk; ++i) chunk->decay[i] = 0;
  for (int64_t i = 0; i < chunk->offset + chunk->rows; ++i) {
    const bool own = i >= chunk->offset;
    const float* row = own ? MixedRow(call, segment, chunk->first + i - chunk->offset) : TailRow(call, segment, i);
    chunk->keys[i] = row + (own ? call.key_channel : call.key_in_row) + key;
    chunk->decays[i] = row + (own ? call.channels : call.decay_in_row) + decay;
    chunk->updates[i] = own ? chunk->own_updates + (i - chunk->offset) * call.value_size
                            : row + call.update_in_row + head * call.value_size;
    chunk->decay[i] = *chunk->decays[i];
  }
}

void ComputeRows(const RecurrenceCall& call, const RecurrenceSegment& segment, int64_t head, const float* state,
                 StateChunk* chunk) {
  const int64_t key_head = call.alternates ? head % call.key_heads : head / (call.value_heads / call.key_heads);
  FindRows(call, segment, head, key_head, chunk);
  WeighUpdates(call, segment, key_head, chunk);
  const float* keys[kStateChunk];
  const float* queries[kStateChunk];
  for (int64_t r = 0; r < chunk->rows; ++r) {
    keys[r] = chunk->keys[chunk->offset + r];
    queries[r] = MixedRow(call, segment, chunk->first + r) + call.query_channel + key_head * call.key_size;
    chunk->state_decay[r] = call.decays_channels ? 1.0f : ExpOf(chunk->decay[chunk->offset + r]);
    if (!call.decays_channels) continue;
    const float* decays = chunk->decays[chunk->offset + r];
    float *key = chunk->decayed[0] + r * call.key_size, *query = chunk->decayed[1] + r * call.key_size;
    EachRun(call.key_size, [&](int64_t i, int64_t c) LANES_LAMBDA {
      const F32x16 decay = Exp(LoadRun(decays + i, c));
      StoreRun(key + i, Mul(LoadRun(keys[r] + i, c), decay), c);
      StoreRun(query + i, Mul(LoadRun(queries[r] + i, c), decay), c);
    });
    keys[r] = key, queries[r] = query;
  }
  ReadState(call, state, keys, queries, chunk);
  int64_t column = 0;
  for (; column + 16 * kStateVectors <= call.value_size; column += 16 * kStateVectors) {
    UpdateColumns<kStateVectors>(call, segment, head, column, chunk);
  }
  for (; column < call.value_size; column += 16) UpdateColumns<1>(call, segment, head, column, chunk);
}

// ---- the next boundary ----------------------------------------------------------------------------------------------

/// Key channels [channel, channel + M), N vectors of value channels. `to` may be `state`.
template <int M, int N>
LANES_PRODUCT void FoldBlock(const RecurrenceCall& call, const StateChunk& chunk, const float* decay,
                             const float* state, int64_t channel, int64_t column, float* to) {
  F32x16 acc[M][N];
  const int64_t at = channel * call.value_size + column;
  LANES_UNROLL for (int m = 0; m < M; ++m) {
    LANES_UNROLL for (int j = 0; j < N; ++j) {
      acc[m][j] =
          state == nullptr ? Zero() : Mul(Set(decay[channel + m]), Load(state + at + m * call.value_size + 16 * j));
    }
  }
  for (int64_t i = 0; i < kStateChunk; ++i) {
    F32x16 u[N];
    LANES_UNROLL for (int j = 0; j < N; ++j) u[j] = Load(chunk.updates[i] + column + 16 * j);
    LANES_UNROLL for (int m = 0; m < M; ++m) {
      const F32x16 k = Set(chunk.folded[i * call.key_size + channel + m]);
      LANES_UNROLL for (int j = 0; j < N; ++j) acc[m][j] = Fma(k, u[j], acc[m][j]);
    }
  }
  LANES_UNROLL for (int m = 0; m < M; ++m) {
    LANES_UNROLL for (int j = 0; j < N; ++j) Store(to + at + m * call.value_size + 16 * j, acc[m][j]);
  }
}

template <int N>
void FoldColumns(const RecurrenceCall& call, const StateChunk& chunk, const float* decay, const float* state,
                 int64_t column, float* to) {
  constexpr int M = kWideRegisters ? 4 : 2;
  int64_t c = 0;
  for (; c + M <= call.key_size; c += M) FoldBlock<M, N>(call, chunk, decay, state, c, column, to);
  for (; c < call.key_size; ++c) FoldBlock<1, N>(call, chunk, decay, state, c, column, to);
}

/// The state after the chunk's last row.
void FoldChunk(const RecurrenceCall& call, const float* state, StateChunk* chunk, float* to) {
  float decay[RecurrenceShape::kMaxSize];  // e^G_C of each key channel
  const float* last = chunk->decays[kStateChunk - 1];
  const auto load = [&](const float* values, int64_t i, int64_t c)
                        LANES_LAMBDA { return call.decays_channels ? LoadRun(values + i, c) : Set(*values); };
  EachRun(call.key_size, [&](int64_t i, int64_t c) LANES_LAMBDA { StoreRun(decay + i, Exp(load(last, i, c)), c); });
  for (int64_t row = 0; row < kStateChunk; ++row) {
    EachRun(call.key_size, [&](int64_t i, int64_t c) LANES_LAMBDA {
      const F32x16 factor = Exp(Sub(load(last, i, c), load(chunk->decays[row], i, c)));
      StoreRun(chunk->folded + row * call.key_size + i, Mul(factor, LoadRun(chunk->keys[row] + i, c)), c);
    });
  }
  int64_t column = 0;
  for (; column + 16 * kStateVectors <= call.value_size; column += 16 * kStateVectors) {
    FoldColumns<kStateVectors>(call, *chunk, decay, state, column, to);
  }
  for (; column < call.value_size; column += 16) FoldColumns<1>(call, *chunk, decay, state, column, to);
}

void UpdateState(const RecurrenceCall& call, const RecurrenceSegment& segment, int64_t head) {
  const int64_t at = head * call.key_size * call.value_size;
  const float* state = segment.boundary == nullptr ? nullptr : segment.boundary + at;
  const BoundaryWrite* write = segment.writes;
  StateChunk chunk;
  for (int64_t first = 0; first < segment.rows; first += chunk.rows) {
    const int64_t position = segment.position + first, rest = segment.rows - first;
    chunk.first = first;
    chunk.offset = position % kStateChunk;
    chunk.rows = rest < kStateChunk - chunk.offset ? rest : kStateChunk - chunk.offset;
    ComputeRows(call, segment, head, state, &chunk);
    const int64_t end = position + chunk.rows;
    if (chunk.rows == rest) {
      for (int64_t r = 0; r < chunk.rows; ++r) {
        __builtin_memcpy(
            segment.tail + (chunk.offset + r) * call.row_floats + call.update_in_row + head * call.value_size,
            chunk.own_updates + r * call.value_size, static_cast<size_t>(call.value_size) * sizeof(float));
      }
    }
    if (end % kStateChunk != 0) continue;
    // A boundary that is not stored is kept where the next one goes.
    while (write->position < end) ++write;
    FoldChunk(call, state, &chunk, write->boundary + at);
    state = write->boundary + at;
  }
}

}  // namespace
}  // namespace ringside::cpu::RINGSIDE_LANES
