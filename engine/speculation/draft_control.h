// Chooses the number of draft tokens that a sequence verifies in its next step: the one with the most expected tokens
// per second, by the acceptance measured in this conversation and the measured time of draft rows; none where drafts do
// not pay. One per Sequence. THREAD: engine.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace ringside {

/// The time of draft rows in the next step.
struct DraftCosts {
  static constexpr int64_t kMaxDrafts = 16;  // draft tokens of a turn in a step
  int64_t decoding = 1;                      // decode rows of the step
  /// extra[k]: time that k draft rows add to the step, as a share of its time without drafts.
  std::array<double, kMaxDrafts + 1> extra{};
};

class DraftControl {
 public:
  /// Number of tokens to draft after a match of `matched` tokens, at most `most`; 0 = drafts do not pay. If they have
  /// not paid for a while, one token probes the acceptance, at intervals that double until they pay.
  int64_t Plan(int64_t matched, int64_t most, const DraftCosts& costs);
  /// Whether Plan would draft after such a match. For a token that is not followed by Plan.
  bool Expects(int64_t matched, int64_t most, const DraftCosts& costs);
  /// Records the result of a draft.
  void Note(int64_t matched, int64_t drafted, int64_t accepted);

 private:
  /// Accepted and rejected tokens after matches of similar length; older ones count less.
  struct Acceptance {
    double accepted, rejected;
    double probability() const { return accepted / (accepted + rejected); }
  };
  static size_t ClassOf(int64_t matched);
  /// Number of tokens with the most expected tokens per second; 0 if drafts do not pay.
  int64_t FindBest(int64_t matched, int64_t most, const DraftCosts& costs) const;

  // By ClassOf. The initial values are of text that repeats now and then; a long match is seldom a coincidence.
  std::array<Acceptance, 4> acceptance_{{{1, 2}, {1, 1}, {3, 1}, {10, 1}}};
  int64_t skipped_ = 0;  // matches since the last draft
  // Matches before the next probe, for each decode row: the others of the step pay for a probe, too.
  int64_t pause_ = 16;
};

}  // namespace ringside
