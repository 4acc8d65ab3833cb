#include "engine/sampling/beam_search.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/check.h"
#include "base/limits.h"

namespace ringside {

BeamSearch::BeamSearch(const BeamParams& params, int64_t max_tokens, size_t ends, Beam first)
    : params_(params),
      max_tokens_(max_tokens),
      // Even if all end-of-turn ids are among the candidates, enough others remain for every beam.
      candidates_per_beam_(std::min(limits::kMaxBestTokens, params.width + static_cast<int64_t>(ends))) {
  CHECK_GT(params.width, 1);
  CHECK_GE(max_tokens, 1);
  beams_.push_back(std::move(first));
}

RowSamplingParams BeamSearch::Choice(size_t beam, int64_t position) {
  const AnswerReader& reader = beams_[beam].reader;
  RowSamplingParams choice = beams_[beam].sampler.Choice(position, reader.in_answer() || reader.undecided());
  choice.logprobs = candidates_per_beam_;
  choice.edits_logprobs = choice.edits();
  return choice;
}

std::vector<BeamSearch::Candidate> BeamSearch::Rank(std::span<const SampledToken> found) const {
  std::vector<Candidate> candidates;
  for (size_t beam = 0; beam < found.size(); ++beam) {
    double rank = 0;
    for (const TokenLogprob& token : found[beam].best()) {
      const double sum = beams_[beam].sum + static_cast<double>(token.logprob);
      candidates.push_back({beam, token.id, sum, sum - params_.diversity_rate * rank});
      ++rank;
    }
  }
  std::ranges::sort(candidates, [](const Candidate& a, const Candidate& b) {
    if (a.rank_score != b.rank_score) return a.rank_score > b.rank_score;
    return std::pair(a.beam, a.token) < std::pair(b.beam, b.token);
  });
  return candidates;
}

Status BeamSearch::Advance(std::span<const SampledToken> found) {
  CHECK(!done_ && found.size() == beams_.size());
  for (const SampledToken& token : found) {
    if (token.outcome == SampledToken::Outcome::kNonFinite) return StatusOf(token);
  }
  const std::vector<Candidate> candidates = Rank(found);
  if (candidates.empty()) return StatusOf(found.front());
  const bool last = static_cast<int64_t>(beams_.front().tokens.size()) + 1 == max_tokens_;
  const auto width = static_cast<size_t>(params_.width);
  std::vector<Beam> next;
  parents_.clear();
  parent_of_best_.reset();
  for (size_t i = 0; i < candidates.size() && (i < width || next.size() < width); ++i) {
    const Candidate& candidate = candidates[i];
    Beam beam = beams_[candidate.beam];
    const AnswerReader::Step step = beam.reader.Push(candidate.token);
    const bool ends = step.stop || last;
    if (ends && i < width) AddAnswer(candidate);
    if (ends || next.size() == width) continue;
    beam.tokens.push_back(candidate.token);
    beam.sum = candidate.sum;
    step.reasoning_token ? beam.sampler.Skip() : beam.sampler.Append(candidate.token);
    next.push_back(std::move(beam));
    parents_.push_back(candidate.beam);
  }
  beams_ = std::move(next);
  done_ = IsDone();
  FindSettled();
  return Status::Ok();
}

double BeamSearch::Score(double sum, int64_t tokens) const {
  return sum / std::pow(static_cast<double>(tokens), params_.length_penalty);
}

void BeamSearch::AddAnswer(const Candidate& last) {
  Answer answer{beams_[last.beam].tokens, 0};
  answer.tokens.push_back(last.token);
  answer.score = Score(last.sum, static_cast<int64_t>(answer.tokens.size()));
  const auto at = std::ranges::upper_bound(answers_, answer.score, std::greater<>(), &Answer::score);
  if (at == answers_.begin()) parent_of_best_ = last.beam;
  answers_.insert(at, std::move(answer));
  if (static_cast<int64_t>(answers_.size()) > params_.width) answers_.pop_back();
}

bool BeamSearch::IsDone() const {
  if (beams_.empty()) return true;
  if (static_cast<int64_t>(answers_.size()) < params_.width) return false;
  if (params_.early_stopping == BeamParams::EarlyStopping::kYes) return true;
  const double best = std::ranges::max_element(beams_, {}, &Beam::sum)->sum;
  const bool at_most = params_.early_stopping == BeamParams::EarlyStopping::kNever && params_.length_penalty > 0;
  const int64_t tokens = at_most ? max_tokens_ : static_cast<int64_t>(beams_.front().tokens.size());
  return Score(best, tokens) <= answers_.back().score;
}

// Only the best finished answer can be the result.
void BeamSearch::FindSettled() {
  if (done_) {
    settled_ = answers_.front().tokens.size();
    return;
  }
  const std::vector<TokenId>& first = beams_.front().tokens;
  size_t common = first.size();
  const auto cut = [&](const std::vector<TokenId>& tokens) {
    const auto begin = first.begin() + static_cast<std::ptrdiff_t>(settled_);
    const auto end = first.begin() + static_cast<std::ptrdiff_t>(common);
    const auto differs =
        std::mismatch(begin, end, tokens.begin() + static_cast<std::ptrdiff_t>(settled_), tokens.end());
    common = static_cast<size_t>(differs.first - first.begin());
  };
  for (const Beam& beam : beams_) cut(beam.tokens);
  if (!answers_.empty()) cut(answers_.front().tokens);
  settled_ = common;
}

std::span<const TokenId> BeamSearch::settled() const {
  return std::span(done_ ? answers_.front().tokens : beams_.front().tokens).first(settled_);
}

}  // namespace ringside
