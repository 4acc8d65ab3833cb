// Sampling single tokens on the host in tests: a sampler's choice, executed by the reference backend.
#pragma once

#include <vector>

#include "engine/sampling/sampling.h"
#include "kernels/backend.h"

namespace ringside {

struct OneSample {
  TokenId id = 0;
  float logprob = 0;
  std::vector<TokenLogprob> top;
};

/// `logits` are changed.
inline Result<OneSample> SampleOnce(Sampler& sampler, std::span<float> logits, int64_t position) {
  static const std::unique_ptr<Backend> backend = std::move(MakeCpuBackend({.threads = 1}).value());
  const RowSamplingParams choice = sampler.Choice(position);
  SampledToken token;
  const auto vocab = static_cast<int64_t>(logits.size());
  backend->SampleTokens({DType::kF32, logits.data(), 1, vocab, vocab}, {&choice, 1}, {&token, 1});
  backend->Synchronize();
  RETURN_IF_ERROR(StatusOf(token));
  return OneSample{token.id, token.logprob, {token.best().begin(), token.best().end()}};
}

}  // namespace ringside
