// Chooses the source and the number of draft tokens that a sequence verifies in its next step: those with the most
// expected tokens per second, by the acceptance measured in this conversation and the measured time of draft rows; none
// where drafts do not pay. One per Sequence. THREAD: engine.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace ringside {

/// The time of draft rows in the next step.
struct DraftCosts {
  static constexpr int64_t kMaxDrafts = 16;  // draft tokens of a turn in a step
  static constexpr int64_t kMaxOfLayer = 6;  // of the draft layer
  int64_t decoding = 1;                      // decode rows of the step
  /// extra[k]: time that k draft rows add to the step, as a share of its time without drafts.
  std::array<double, kMaxDrafts + 1> extra{};
  /// Time of one token of the draft layer, in the same unit; nullopt without one.
  std::optional<double> layer_token;
};

class DraftControl {
 public:
  /// What a draft can be made from: `ngram` tokens after a match of `matched` tokens (none if it is 0), or up to
  /// `layer` tokens of the draft layer, if there is one.
  struct Sources {
    int64_t matched = 0, ngram = 0, layer = 0;
  };
  struct Choice {
    int64_t tokens = 0;  // 0 = drafts do not pay
    bool by_layer = false;
  };
  /// The source and the number of tokens to draft. If drafts have not paid for a while, one token probes the
  /// acceptance, at intervals that double until they pay.
  Choice Plan(const Sources& sources, const DraftCosts& costs);
  /// Whether Plan would draft. For a token that is not followed by Plan.
  bool Expects(const Sources& sources, const DraftCosts& costs);
  /// Records the result of a draft after a match of `matched` tokens; 0: of the draft layer.
  void Note(int64_t matched, int64_t drafted, int64_t accepted);

 private:
  /// Accepted and rejected tokens after matches of similar length; older ones count less.
  struct Acceptance {
    double accepted, rejected;
    double probability() const { return accepted / (accepted + rejected); }
  };
  static size_t ClassOf(int64_t matched);
  /// The choice with the most expected tokens per second; none if drafts do not pay.
  Choice FindBest(const Sources& sources, const DraftCosts& costs) const;

  // By ClassOf. The initial values are of text that repeats now and then; a long match is seldom a coincidence. The
  // first is that of the draft layer.
  std::array<Acceptance, 5> acceptance_{{{3, 1}, {1, 2}, {1, 1}, {3, 1}, {10, 1}}};
  int64_t skipped_ = 0;  // matches since the last draft
  // Matches before the next probe, for each decode row: the others of the step pay for a probe, too.
  int64_t pause_ = 16;
};

}  // namespace ringside
