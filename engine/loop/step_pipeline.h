// The steps: selects the rows that the network computes next, and distributes the results to their turns. Up to two
// steps are in flight: with run-ahead the next one is launched before the previous one's tokens are known. Owns the
// steps in flight and the measured step times. Owned by EngineLoop. THREAD: engine.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "engine/engine_options.h"
#include "engine/loop/slot_table.h"
#include "engine/model/network.h"
#include "engine/scheduler.h"
#include "engine/sequence_storage.h"
#include "engine/step_time.h"
#include "engine/turns/running_turn.h"

namespace ringside {

class StepPipeline {
 public:
  /// `served`: charged for the rows of each tenant. `counts` receives the statistics. REQUIRES: all references outlive
  /// it.
  StepPipeline(Network& network, const EngineOptions& options, const Clock& clock, SlotTable& slots,
               SequenceStorage& storage, VirtualTokenCounter& served, EngineStats* counts)
      : network_(network),
        options_(options),
        clock_(clock),
        slots_(slots),
        storage_(storage),
        served_(served),
        counts_(*counts) {}

  /// True if a step is in flight.
  bool in_flight() const { return launched_.has_value(); }
  /// True if the turn has a part in the step in flight.
  bool Includes(const RunningTurn& turn) const { return launched_ && launched_->Has(&turn); }

  /// Launches a step; none if no turn can take part. REQUIRES: no step is in flight; running turns have memory for a
  /// step (RunningMemory), or take no part.
  void Launch() { launched_ = LaunchNext(nullptr); }
  /// True if LaunchAhead may follow: the network runs ahead, no turn drafts tokens, which needs the last one first, and
  /// the step in flight is not long. A new turn would wait for two steps. REQUIRES: a step is in flight.
  bool MayRunAhead();
  /// Launches the step after the one in flight, if a turn can take part. REQUIRES: a step is in flight; every running
  /// turn has memory for one more step.
  void LaunchAhead() { next_ = LaunchNext(&*launched_); }
  /// Waits for the step in flight and distributes its tokens. REQUIRES: a step is in flight. ERRORS: the failure of the
  /// device; the results are discarded.
  Status Finish();
  /// Ends the step in flight after Finish. ENSURES: the step launched ahead, if there is one, is in flight, with its
  /// sampling parameters.
  void Advance();
  /// Predicted time per prompt token in the next steps, next to the turns that decode now; 0 = not measured.
  double NsPerPromptToken() const;
  /// Forgets the steps in flight: their state is unknown.
  void Discard() { launched_.reset(), next_.reset(); }

 private:
  /// A row of a step's logits.
  struct LogitsRow {
    RunningTurn* turn = nullptr;
    TurnRow row;
  };
  /// A step given to the network.
  struct LaunchedStep {
    std::vector<LogitsRow> logits;         // in the order of its choices
    std::vector<RunningTurn*> prefilling;  // turns that sample nothing
    /// Rows of a turn whose hidden states are wanted, from position `first` on.
    struct HiddenRows {
      RunningTurn* turn = nullptr;
      int64_t first = 0, rows = 0;
    };
    std::vector<HiddenRows> hidden;  // in the order of the parts
    int64_t begun_ns = 0;
    int64_t decoding = 0;  // rows of decoding turns
    int64_t drafts = 0;    // rows of draft tokens; if any, rows are sampled one after the other
    int64_t prompt_rows = 0;
    int64_t scored_rows = 0;         // prompt rows with logits
    double prompt_work = 0;          // in units of StepTime
    double predicted_ns = 0;         // 0 = unknown
    bool deferred_sampling = false;  // launched without its sampling parameters
    bool Has(const RunningTurn* turn) const;
    /// The row that samples the turn's next token; nullopt if none does.
    std::optional<size_t> RowOf(const RunningTurn* turn) const;
  };
  /// The parts of a step before its launch. turns[i] has the i-th part; `second` is true if its input token is not
  /// known yet.
  struct Parts {
    std::vector<TokenId> awaited;  // the input tokens that are not known yet, one place per running turn
    std::vector<StepPart> parts;
    std::vector<std::pair<RunningTurn*, bool>> turns;
    void Add(RunningTurn& turn, bool awaits, StepPart part) {
      part.image_grids = turn.images().grids();
      parts.push_back(part);
      turns.emplace_back(&turn, awaits);
    }
  };

  /// Tokens of each running turn in the next step, assuming that `under_way` finishes first. `ready`: whether each can
  /// take part.
  std::vector<int64_t> Plan(const LaunchedStep* under_way, const std::vector<bool>& ready);
  /// The time of draft rows in a step with `decoding` decode rows; nullopt if it can have none.
  std::optional<DraftCosts> CostsOfDrafts(int64_t decoding) const;
  /// Whether a turn will draft tokens after the step in flight, which computes no prompt. Called at most once per step.
  bool ExpectsDrafts();
  /// Sets the turns' drafts. `decoding`: decode rows of the step.
  void PlanDrafts(int64_t decoding, std::vector<StepTurn>* turns);
  /// Those of the turns that want tokens of the draft layer, by their places.
  void DraftByLayer(std::span<const size_t> places, std::vector<StepTurn>* turns);
  /// Limits of a step with `decoding` decode rows for the prompts of `turns`.
  StepLimits LimitsFor(int64_t decoding, std::span<const StepTurn> turns, bool has_tenants) const;
  /// Prompt work of a step of `limit_ns` with `decoding` decode rows.
  double PromptWork(int64_t decoding, double limit_ns) const;
  /// Target duration of a step with prompts and decode rows.
  double TargetNs() const { return step_time_.TargetNs(options_.target_itl_ms * 1e6); }
  /// Cost of a row at this position, in units of a row without attention.
  double Work(int64_t position) const;
  /// Computes rows of images that turns need next, for about the time of a step's prompts. Turns that lack some after
  /// that are not ready.
  void EncodeImages(std::vector<bool>* ready);
  /// Launches the next step; nullopt if no turn takes part. `under_way`: the previous step, whose tokens are not known
  /// yet, or null.
  std::optional<LaunchedStep> LaunchNext(const LaunchedStep* under_way);
  /// Adds a turn's rows to the step. `awaits`: their token is not known yet.
  static void AddRows(RunningTurn& turn, bool awaits, const TurnRows& rows, LaunchedStep* step, Parts* parts);
  /// Gives the network the parts of a step and advances their turns.
  void Begin(LaunchedStep& step, const Parts& parts);
  /// Deferred sampling: sets the sampling parameters of a step that was launched without them.
  void Choose(LaunchedStep* step);
  /// Predicted duration of a step with prompts; 0 = unknown.
  double PredictedNs(const LaunchedStep& step) const;
  /// The time since its launch, or since the end of the previous step if that was later. Ends the step.
  int64_t TimeOf(const LaunchedStep& step);
  /// Finish of a step without drafts: distributes the sampled tokens.
  Status FinishTokens(const LaunchedStep& step);
  /// Finish of a step with drafts: samples the rows of each turn up to the first rejected draft token, each after the
  /// token before it. On a device each call has a price: there a turn's rows are sampled at once if their parameters
  /// are known.
  Status FinishDrafts(const LaunchedStep& step);
  /// Consecutive rows of a turn in LaunchedStep::logits that are not sampled yet.
  struct RowsLeft {
    RunningTurn* turn = nullptr;
    size_t next = 0, end = 0;
  };
  /// The rows that can be sampled now, removed from `left`.
  std::vector<size_t> TakeKnownRows(const LaunchedStep& step, std::vector<RowsLeft>* left) const;
  /// Drops rejected drafts and accounts for the accepted ones, which cost tenants and turns like any token.
  void SettleDrafts(RunningTurn& turn);
  void CollectHiddenStates(const LaunchedStep& step);

  Network& network_;
  const EngineOptions& options_;
  const Clock& clock_;
  SlotTable& slots_;
  SequenceStorage& storage_;
  VirtualTokenCounter& served_;
  EngineStats& counts_;
  std::optional<LaunchedStep> launched_, next_;  // in flight, and launched ahead
  int64_t step_finished_ns_ = 0;                 // end of the last step
  StepTime step_time_;
};

}  // namespace ringside
