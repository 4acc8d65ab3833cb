// A turn whose answer is found by beam search. Its timeline's cache holds the prompt; each beam's cache is a branch of
// it. After a preemption the beams' rows are recomputed, one beam per step. THREAD: engine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "engine/sampling/beam_search.h"
#include "engine/turns/beam_caches.h"
#include "engine/turns/running_turn.h"

namespace ringside {

class BeamTurn final : public RunningTurn {
 public:
  using RunningTurn::RunningTurn;

  int64_t max_reusable() const override;
  /// False after a preemption while its prompt is loaded. Afterwards makes the beams' caches branches of its cache;
  /// remaining() then counts their rows.
  bool PrepareStep(bool loaded) override;
  TurnRows NextRows(int64_t limit) override;
  void OnLaunched(std::span<const TokenId> tokens, bool awaits) override;
  RowSamplingParams Params(const TurnRow& row) override;
  /// Collects the candidates of the next beam. Those of the last one advance the search.
  void Take(const TurnRow& row, const SampledToken& token, int64_t now_ns) override;
  void AttachBranches(SlabMemory& memory, std::vector<KvCache*> caches) override;
  std::vector<KvCache*> DetachBranches(bool keep) override;
  int64_t beam_rows() const override;

 protected:
  void Start(const Tokenizer& tokenizer, int64_t vocab) override;

 private:
  /// True while it decodes beams, all in one step.
  bool has_beams() const { return caches_ && caches_->begun() && remaining() == 1; }
  /// True while the beams' rows are recomputed.
  bool rebuilds_beams() const { return caches_ && caches_->begun() && remaining() > 1; }
  /// Makes the beams' caches branches of its cache, after a preemption.
  void ResumeBeams();
  /// Adds the next of the rows that are recomputed, at most `limit`. REQUIRES: rebuilds_beams().
  void AddLackingRows(int64_t limit, TurnRows* rows);
  void AdvanceBeamPosition(std::span<const TokenId> chunk);
  /// Advances the search after all beams have candidates: reorders, ends, and emits the settled text.
  void AdvanceBeams();
  /// Appends a settled token of the answer.
  void Append(TokenId id);
  /// The next token of a beam to feed.
  std::span<const TokenId> LastOfBeam(size_t beam) const { return std::span(search_->beam(beam).tokens).last(1); }
  /// Tokens of a beam that have rows in its cache before the last one is fed.
  std::span<const TokenId> CachedTokensOfBeam(size_t beam) const;

  std::optional<BeamSearch> search_;  // from Start on
  std::optional<BeamCaches> caches_;  // while it has slots
  size_t rebuilt_beam_ = 0;           // beam being recomputed
  std::vector<SampledToken> found_;   // candidates of the first beams in this step
};

}  // namespace ringside
