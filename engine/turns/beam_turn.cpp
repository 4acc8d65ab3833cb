#include "engine/turns/beam_turn.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace ringside {

void BeamTurn::Start(const Tokenizer&, int64_t vocab) {
  const std::span<const TokenId> tokens = request().tokens;
  Sampler sampler(request().sampling, vocab, tokens.subspan(static_cast<size_t>(request().virtual_tokens)),
                  request().stop_ids);
  search_.emplace(request().sampling.beams, request().max_tokens, request().stop_ids.size(),
                  BeamSearch::Beam{{}, 0, std::move(sampler), stream().reader()});
  CheckLimits();
}

int64_t BeamTurn::beam_rows() const {
  if (!search_ || search_->beams() == 0) return 0;
  return std::ssize(search_->beam(0).tokens) * static_cast<int64_t>(search_->beams());
}

int64_t BeamTurn::max_reusable() const { return beam_rows() > 0 ? prompt_tokens() : RunningTurn::max_reusable(); }

std::span<const TokenId> BeamTurn::CachedTokensOfBeam(size_t beam) const {
  const std::span<const TokenId> tokens = search_->beam(beam).tokens;
  return tokens.first(tokens.size() - 1);
}

bool BeamTurn::PrepareStep(bool loaded) {
  const bool resumes = beam_rows() > 0 && caches_ && !caches_->begun() && sequence()->computed() == prompt_tokens();
  if (resumes && loaded) ResumeBeams();
  return !resumes || loaded;
}

void BeamTurn::ResumeBeams() {
  caches_->Begin(*sequence()->cache(), search_->beams());
  rebuilt_beam_ = 0;
  int64_t lacking = 0;
  for (size_t beam = 0; beam < search_->beams(); ++beam) {
    const std::span<const TokenId> tokens = CachedTokensOfBeam(beam);
    int64_t copied = 0;
    for (size_t earlier = 0; earlier < beam; ++earlier) {
      const int64_t common = std::ranges::mismatch(tokens, CachedTokensOfBeam(earlier)).in1 - tokens.begin();
      copied = std::max(copied, common);
    }
    lacking += std::ssize(tokens) - copied;
  }
  SetRemaining(lacking + 1);
  NoteRows(-lacking);  // recomputed rows are not charged
}

TurnRows BeamTurn::NextRows(int64_t limit) {
  TurnRows rows;
  if (rebuilds_beams()) {
    AddLackingRows(limit, &rows);
    return rows;
  }
  if (!has_beams()) return PromptRows(limit, /*scores=*/false);
  for (size_t beam = 0; beam < search_->beams(); ++beam) {
    rows.parts.push_back({caches_->OfBeam(beam), LastOfBeam(beam), StepPart::Logits::kLast, request().adapter});
    rows.logits.push_back({.beam = beam});
  }
  return rows;
}

void BeamTurn::AddLackingRows(int64_t limit, TurnRows* rows) {
  std::span<const TokenId> lacking;
  while ((lacking = caches_->CopyFromEarlier(rebuilt_beam_, CachedTokensOfBeam(rebuilt_beam_))).empty())
    ++rebuilt_beam_;
  KvCache* cache = caches_->OfBeam(rebuilt_beam_);
  const int64_t count = std::min({limit, std::ssize(lacking), cache->ring().max_chunk()});
  rows->parts.push_back({cache, lacking.first(static_cast<size_t>(count)), StepPart::Logits::kNone, request().adapter});
}

void BeamTurn::OnLaunched(std::span<const TokenId> tokens, bool awaits) {
  CHECK(!awaits);
  if (has_beams()) return;  // AdvanceBeams advances all
  rebuilds_beams() ? AdvanceBeamPosition(tokens) : AdvancePosition(tokens);
}

void BeamTurn::AdvanceBeamPosition(std::span<const TokenId> chunk) {
  caches_->AdvancePosition(rebuilt_beam_, chunk);
  SetRemaining(remaining() - std::ssize(chunk));
  CHECK_GE(remaining(), 1);
  if (remaining() > 1) return;
  for (size_t beam = rebuilt_beam_ + 1; beam < search_->beams(); ++beam) {
    CHECK(caches_->CopyFromEarlier(beam, CachedTokensOfBeam(beam)).empty());
  }
}

RowSamplingParams BeamTurn::Params(const TurnRow& row) {
  return search_->Choice(row.beam, prompt_tokens() + std::ssize(search_->beam(row.beam).tokens));
}

void BeamTurn::Take(const TurnRow&, const SampledToken& token, int64_t now_ns) {
  NoteToken(now_ns);
  found_.push_back(token);
  if (found_.size() < search_->beams()) return;
  AdvanceBeams();
  found_.clear();
}

void BeamTurn::AdvanceBeams() {
  if (has_beams()) {
    for (size_t beam = 0; beam < search_->beams(); ++beam) caches_->AdvancePosition(beam, LastOfBeam(beam).front());
  } else {
    caches_->Begin(*sequence()->cache());
  }
  if (Status status = search_->Advance(found_); !status.ok()) return Finish(FinishReason::kError, std::move(status));
  if (search_->parent_of_best()) caches_->KeepBestRows(*search_->parent_of_best());
  if (!search_->done()) caches_->Follow(search_->parents());
  for (const TokenId id : search_->settled().subspan(static_cast<size_t>(generated()))) Append(id);
  CHECK(finished() || !search_->done());
}

void BeamTurn::Append(TokenId id) {
  AppendToTimeline(id);
  Emit({.id = id}, stream().reader().Push(id));
  if (!finished()) CheckLimits();
}

void BeamTurn::AttachBranches(SlabMemory& memory, std::vector<KvCache*> caches) {
  caches_.emplace(memory, std::move(caches));
}

std::vector<KvCache*> BeamTurn::DetachBranches(bool keep) {
  if (!caches_) return {};
  if (keep && caches_->begun()) {
    const std::span<const TokenId> answer = std::span(request().tokens).subspan(static_cast<size_t>(prompt_tokens()));
    KvCache* cache = sequence()->cache();
    const auto tokens = std::ssize(answer);
    const int64_t joined = search_->done() ? caches_->JoinBest(cache, tokens) : caches_->JoinFirstBeam(cache, tokens);
    sequence()->AdvancePosition(answer.first(static_cast<size_t>(joined)));
  }
  std::vector<KvCache*> caches = caches_->caches();
  caches_.reset();
  return caches;
}

}  // namespace ringside
