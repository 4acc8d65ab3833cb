// A RowSamplingParams in device form: staged together with its lists, whose pointers are device addresses. Plain data.
#pragma once

#include <cstdint>

namespace ringside::cuda {

struct CountedId {
  int32_t id, count;
};
struct BiasedId {
  int32_t id;
  float bias;
};

struct DeviceSamplingParams {
  const BiasedId* bias;
  const CountedId* counted;
  const int32_t* repeated;
  const int32_t* banned;
  const uint32_t* allowed;                // one bit per id; null: every token
  int32_t biases, counts, repeats, bans;  // lengths of these lists
  double repetition_penalty, presence_penalty, frequency_penalty;
  double top_p, min_p, uniform;
  int64_t top_k;  // 0 = off
  float inverse_temperature;
  int32_t logprobs;
  int32_t scored;  // -1 = none
  bool greedy, edits_logprobs;
};

}  // namespace ringside::cuda
