#include "kernels/cpu/vocabulary_passes.h"

#include <algorithm>
#include <functional>

#include "base/check.h"

namespace ringside::cpu {
namespace {

constexpr float kRemoved = -std::numeric_limits<float>::infinity();  // logit of a token that cannot be sampled
constexpr size_t kLanes = 16;

// Independent lanes, so that the compiler can vectorize without reordering any sum.
float BlockMax(const float* block) {
  float lanes[kLanes];
  for (size_t j = 0; j < kLanes; ++j) lanes[j] = block[j];
  for (size_t i = kLanes; i < 64; i += kLanes) {
    for (size_t j = 0; j < kLanes; ++j) lanes[j] = block[i + j] > lanes[j] ? block[i + j] : lanes[j];
  }
  for (size_t width = kLanes / 2; width > 0; width /= 2) {
    for (size_t j = 0; j < width; ++j) lanes[j] = lanes[j + width] > lanes[j] ? lanes[j + width] : lanes[j];
  }
  return lanes[0];
}

void BlockWeights(const float* __restrict logits, float max, float inverse_temperature, float* __restrict weights) {
  for (size_t j = 0; j < 64; ++j) weights[j] = SoftmaxWeight(logits[j], max, inverse_temperature);
}

double BlockSum(const float* weights) {
  double lanes[kLanes / 2] = {};
  for (size_t i = 0; i < 64; i += kLanes / 2) {
    for (size_t j = 0; j < kLanes / 2; ++j) lanes[j] += static_cast<double>(weights[i + j]);
  }
  double sum = 0;
  for (const double lane : lanes) sum += lane;
  return sum;
}

}  // namespace

bool VocabularyPasses::AllUsable(std::span<const float> logits) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  unsigned bad = 0;
  for (const float logit : logits) bad |= static_cast<unsigned>(!(logit < kInfinity));
  return bad == 0;
}

Candidate VocabularyPasses::FindBest(std::span<const float> logits) {
  block_best_.clear();
  const size_t whole = logits.size() / kBlock * kBlock;
  for (size_t i = 0; i < whole; i += kBlock) block_best_.push_back(BlockMax(&logits[i]));
  if (whole < logits.size()) block_best_.push_back(*std::max_element(logits.begin() + whole, logits.end()));
  const size_t block = std::max_element(block_best_.begin(), block_best_.end()) - block_best_.begin();
  max_ = block_best_[block];
  size_t id = block * kBlock;
  while (logits[id] != max_) ++id;  // the first of equals: the lowest id
  return {max_, static_cast<int32_t>(id)};
}

double VocabularyPasses::SumWeights(std::span<const float> logits, float inverse_temperature) {
  block_sums_.resize(block_best_.size());
  double total = 0;
  for (size_t block = 0; block < block_sums_.size(); ++block) {
    float weights[kBlock] = {};
    const size_t begin = block * kBlock;
    const size_t count = std::min(kBlock, logits.size() - begin);
    if (count == kBlock) {
      BlockWeights(&logits[begin], max_, inverse_temperature, weights);
    } else {
      for (size_t j = 0; j < count; ++j) weights[j] = SoftmaxWeight(logits[begin + j], max_, inverse_temperature);
    }
    block_sums_[block] = BlockSum(weights);
    total += block_sums_[block];
  }
  return total;
}

int32_t VocabularyPasses::Draw(std::span<const float> logits, float inverse_temperature, double uniform) {
  const double target = uniform * SumWeights(logits, inverse_temperature);
  double before = 0;
  size_t block = 0, last_used = 0;
  for (; block < block_sums_.size(); ++block) {
    if (block_sums_[block] > 0) last_used = block;
    if (target < before + block_sums_[block]) break;
    before += block_sums_[block];
  }
  if (block == block_sums_.size()) {  // rounding at the very end of the range
    block = last_used;
    before = std::numeric_limits<double>::lowest();
  }
  int32_t sampled = 0;
  const size_t end = std::min((block + 1) * kBlock, logits.size());
  for (size_t id = block * kBlock; id < end; ++id) {
    const float weight = SoftmaxWeight(logits[id], max_, inverse_temperature);
    if (weight <= 0) continue;
    sampled = static_cast<int32_t>(id);
    before += weight;
    if (target < before) break;
  }
  return sampled;
}

void VocabularyPasses::GatherAtLeast(std::span<const float> logits, float threshold,
                                     std::vector<Candidate>& out) const {
  for (size_t block = 0; block < block_best_.size(); ++block) {
    if (block_best_[block] < threshold) continue;
    const size_t end = std::min((block + 1) * kBlock, logits.size());
    for (size_t id = block * kBlock; id < end; ++id) {
      if (logits[id] >= threshold && logits[id] > kRemoved) out.emplace_back(logits[id], static_cast<int32_t>(id));
    }
  }
}

float VocabularyPasses::LowerBoundOfTop(int64_t k) {
  CHECK_GT(k, 0);
  if (k > static_cast<int64_t>(block_best_.size())) return kRemoved;
  bound_scratch_ = block_best_;
  std::nth_element(bound_scratch_.begin(), bound_scratch_.begin() + (k - 1), bound_scratch_.end(), std::greater<>());
  return bound_scratch_[k - 1];
}

}  // namespace ringside::cpu
