// The engine loop's steps: the order of slots and rows; launch, run-ahead and completion of a step.
#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "engine/engine_loop.h"
#include "kernels/deferred_token.h"
#include "kernels/slab_memory.h"

namespace ringside {
namespace {

// tenants[i] becomes the index of the i-th turn's tenant in `served`.
template <class Turns>
void IndexTenants(const Turns& turns, const VirtualTokenCounter& tokens, std::vector<size_t>& tenants,
                  std::vector<double>& served) {
  std::unordered_map<std::string_view, size_t> places;
  for (const auto& turn : turns) {
    const auto [place, is_new] = places.try_emplace(turn->request().tenant, served.size());
    if (is_new) served.push_back(tokens.Of(turn->request().tenant));
    tenants.push_back(place->second);
  }
}

}  // namespace

void EngineLoop::OrderWaiting() {
  std::vector<size_t> tenants;
  std::vector<double> served;
  IndexTenants(waiting_, served_, tenants, served);
  if (served.size() < 2) return;
  std::unordered_map<std::string_view, int64_t> turns;
  for (const auto& turn : running_) ++turns[turn->request().tenant];
  std::vector<int64_t> running(served.size());
  std::vector<bool> begins(served.size());  // whether the tenant's next turn is a new one
  for (size_t i = tenants.size(); i-- > 0;) {
    running[tenants[i]] = turns[waiting_[i]->request().tenant];
    begins[tenants[i]] = !waiting_[i]->begun();
  }
  // A new turn counts as if its tenant had been served less, as where it preempts another (PickVictim).
  for (size_t tenant = 0; tenant < served.size(); ++tenant) served[tenant] -= begins[tenant] ? kServedMargin : 0;
  std::deque<std::unique_ptr<RunningTurn>> ordered;
  for (const size_t i : SlotOrder(tenants, std::move(served), std::move(running)))
    ordered.push_back(std::move(waiting_[i]));
  waiting_ = std::move(ordered);
}

template <class Call>
void EngineLoop::FailIfThrows(Call call) {
  try {
    call();
  } catch (const std::exception& error) {
    launched_.reset();  // its state is unknown
    Fail(Unavailable(fmt::format("a step has failed: {}", error.what())));
  }
}

void EngineLoop::Step() {
  FailIfThrows([this] {
    if (!launched_ && GrowRunning()) launched_ = Launch(nullptr);
    if (!launched_) return;
    std::optional<LaunchedStep> next;
    if (MayRunAhead() && GrowAhead()) next = Launch(&*launched_);
    FinishStep(*launched_);
    if (next && next->deferred_sampling) Choose(&*next);
    launched_ = std::move(next);
  });
}

bool EngineLoop::LaunchedStep::Has(const RunningTurn* turn) const {
  return RowOf(turn).has_value() || std::ranges::count(prefilling, turn) > 0;
}

std::optional<size_t> EngineLoop::LaunchedStep::RowOf(const RunningTurn* turn) const {
  const auto found =
      std::ranges::find_if(logits, [&](const LogitsRow& row) { return row.turn == turn && row.chooses(); });
  if (found == logits.end()) return std::nullopt;
  return static_cast<size_t>(found - logits.begin());
}

RowSamplingParams EngineLoop::ChoiceOf(const LogitsRow& row) {
  if (!row.chooses()) return row.turn->ScoreAt(row.scored);
  return row.awaits ? row.turn->ChoiceAhead() : row.turn->Choice(row.beam);
}

double EngineLoop::Work(int64_t position) const {
  const double context = network_.shape().attention_context;
  return context == 0 ? 1 : 1 + static_cast<double>(position) / context;
}

int64_t EngineLoop::PromptRows(int64_t decoding, double limit_ns) const {
  constexpr int64_t kLeast = 16, kUnmeasured = 64;
  double work = 0, logits_work = 0, rows = 0;
  for (const auto& turn : running_) {
    if (turn->remaining() <= 1) continue;
    rows += 1;
    work += Work(turn->sequence()->computed());
    logits_work += turn->scores_next() ? step_time_.LogitsWork() : 0;
  }
  if (rows == 0) return options_.step_tokens;
  const auto bounded = [&](double most) {
    return std::clamp(static_cast<int64_t>(most), std::min(kLeast, options_.step_tokens), options_.step_tokens);
  };
  // Scored rows must not make a step longer than unscored ones.
  if (decoding == 0) return bounded(static_cast<double>(options_.step_tokens) * rows / (rows + logits_work));
  const double fitting = step_time_.PromptWork(decoding, limit_ns, kUnmeasured);
  return bounded(fitting * rows / std::max(work + logits_work, 1.0));
}

std::vector<int64_t> EngineLoop::Plan(const LaunchedStep* under_way) const {
  // A turn whose cache is still loading starts with the first layers; each layer waits for its rows. If other turns
  // run, it joins them only when the whole cache should arrive before the step ends; otherwise they would wait for it.
  const auto loads = [&](const auto& turn) { return sequence_storage_.Loads(turn->sequence()->cache()); };
  const bool alone = std::ranges::all_of(running_, [&](const auto& turn) { return loads(turn) || !HasMemory(*turn); });
  const double step_ns = step_time_.DecodeNs(std::ssize(running_));
  const auto waits = [&](const auto& turn) {
    return !alone && loads(turn) && sequence_storage_.LoadingNs(turn->sequence()->cache()) > step_ns;
  };
  std::vector<size_t> tenants;
  std::vector<double> served;
  IndexTenants(running_, served_, tenants, served);
  std::vector<StepTurn> turns;
  int64_t decoding = 0;
  for (const auto& turn : running_) {
    StepTurn& planned = turns.emplace_back();
    planned.tenant = tenants[turns.size() - 1];
    planned.deadline_ns = turn->Deadline(step_time_.PromptNs(Work(turn->sequence()->computed())));
    if (turn->finished() || !HasMemory(*turn) || waits(turn)) continue;
    if (turn->may_resume_beams()) continue;  // its cache is still loading
    const bool awaits = under_way != nullptr && under_way->RowOf(turn.get());
    planned.remaining = !awaits ? turn->remaining() : turn->CanRunAhead() ? 1 : 0;
    decoding += planned.remaining == 1 ? 1 : 0;
  }
  // Prompts of tenants that are ahead. A mixed step is not replayed as a graph, so a smaller factor would save the
  // others little time and cost many steps.
  constexpr double kAheadStep = 3;  // times the duration of the decode step
  const int64_t decodes = std::max<int64_t>(1, decoding);
  const double long_ns = options_.max_step_ms * 1e6, short_ns = kAheadStep * step_time_.DecodeNs(decodes);
  StepLimits limits{PromptRows(decoding, long_ns), options_.prefill_chunk, options_.row_tile};
  if (short_ns > 0) limits.rows_for_ahead = PromptRows(decodes, std::min(short_ns, long_ns));
  return PlanStep(turns, std::move(served), limits);
}

bool EngineLoop::MayRunAhead() const {
  constexpr double kLongNs = 15e6;
  if (!network_.runs_ahead()) return false;
  // Hidden states exist for the last step only, so a step with embedded turns cannot overlap with the next one: either
  // the previous step's tokens would be late or these states would be lost.
  if (std::ranges::any_of(running_, [](const auto& turn) { return turn->request().embedded; })) return false;
  // Beam search cannot run ahead; the other turns would get two tokens for each one of a beam.
  if (std::ranges::any_of(launched_->logits, [](const LogitsRow& row) { return row.turn->branches() > 0; }))
    return false;
  return launched_->prompt_rows == 0 ||
         step_time_.DecodeNs(launched_->decoding) +
                 step_time_.PromptNs(launched_->prompt_work +
                                     static_cast<double>(launched_->scored_rows) * step_time_.LogitsWork()) <
             kLongNs;
}

std::optional<EngineLoop::LaunchedStep> EngineLoop::Launch(const LaunchedStep* under_way) {
  for (const auto& turn : running_) {
    if (turn->may_resume_beams() && !sequence_storage_.Loads(turn->sequence()->cache())) turn->ResumeBeams();
  }
  const std::vector<int64_t> take = Plan(under_way);
  LaunchedStep step;
  step.begun_ns = clock_.MonotonicNs();
  std::vector<TokenId> awaited(running_.size());
  std::vector<StepPart> parts;
  std::vector<std::pair<RunningTurn*, bool>> turns;  // and whether its input token is not known yet
  for (size_t i = 0; i < running_.size(); ++i) {
    RunningTurn& turn = *running_[i];
    if (turn.computes_prompt()) turn.NoteStep(take[i] > 0, step.begun_ns);
    if (take[i] == 0) continue;
    for (size_t beam = 0; turn.has_beams() && beam < turn.beams(); ++beam) {
      parts.push_back({turn.BeamCache(beam), turn.LastOfBeam(beam), StepPart::Logits::kLast, turn.request().adapter});
      turns.push_back({&turn, false});
      step.logits.push_back({.turn = &turn, .beam = beam});
    }
    if (turn.has_beams()) continue;
    if (turn.rebuilds_beams()) {
      const RunningTurn::BeamChunk chunk = turn.NextBeamChunk(take[i]);
      parts.push_back({chunk.cache, chunk.tokens, StepPart::Logits::kNone, turn.request().adapter});
      turns.push_back({&turn, false});
      step.prefilling.push_back(&turn);
      continue;
    }
    const std::optional<size_t> row = under_way == nullptr ? std::nullopt : under_way->RowOf(&turn);
    const bool awaits = row.has_value();
    awaited[i] = DeferredToken(row.value_or(0));
    const std::span<const TokenId> chunk = awaits ? std::span<const TokenId>(&awaited[i], 1) : turn.NextChunk(take[i]);
    const bool last = awaits || (turn.wants_logits() && std::ssize(chunk) == turn.remaining());
    const bool scores = !awaits && turn.scores_next();
    parts.push_back({turn.sequence()->cache(), chunk,
                     scores ? StepPart::Logits::kAll
                     : last ? StepPart::Logits::kLast
                            : StepPart::Logits::kNone,
                     turn.request().adapter, turn.request().embedded});
    turns.push_back({&turn, awaits});
    if (turn.request().embedded) step.hidden.push_back({&turn, turn.sequence()->computed(), std::ssize(chunk)});
    const int64_t first = turn.sequence()->computed(), end = first + std::ssize(chunk) - (last ? 1 : 0);
    for (int64_t position = first; scores && position < end; ++position) {
      step.logits.push_back({.turn = &turn, .scored = position + 1});
      ++step.scored_rows;
    }
    if (last) step.logits.push_back({.turn = &turn, .awaits = awaits});
    if (!last) step.prefilling.push_back(&turn);
    step.deferred_sampling |= awaits && !turn.ParamsKnownAhead();
  }
  if (parts.empty() || (step.deferred_sampling && step.logits.size() > kMaxDeferredRows)) return std::nullopt;
  Begin(step, parts, turns);
  return step;
}

void EngineLoop::Begin(LaunchedStep& step, std::span<const StepPart> parts,
                       std::span<const std::pair<RunningTurn*, bool>> turns) {
  std::vector<RowSamplingParams> choices;
  if (!step.deferred_sampling) {
    for (const LogitsRow& row : step.logits) choices.push_back(ChoiceOf(row));
  }
  for (size_t i = 0; i < parts.size(); ++i) {
    const auto [turn, awaits] = turns[i];
    const auto rows = std::ssize(parts[i].tokens);
    const bool decodes = awaits || turn->remaining() == 1;
    step.decoding += decodes ? 1 : 0;
    turn->NoteRows(rows);
    (decodes ? counts_.tokens_decoded : counts_.tokens_prefilled) += static_cast<uint64_t>(rows);
    served_.Add(turn->request().tenant, decodes ? VirtualTokenCounter::kDecodeWeight : static_cast<double>(rows));
    if (decodes) continue;
    if (!turn->needs_results()) ++timelines_[turn->timeline_id()].prompt_steps;
    step.prompt_rows += rows;
    step.prompt_work += static_cast<double>(rows) * Work(turn->sequence()->computed() + rows / 2);
  }
  step.deferred_sampling ? network_.BeginDeferred(parts) : network_.Begin(parts, choices);
  ++counts_.steps;
  for (size_t i = 0; i < parts.size(); ++i) {
    const auto [turn, awaits] = turns[i];
    if (awaits) turn->RunAhead();
    if (!awaits && !turn->has_beams()) turn->AdvancePosition(parts[i].tokens);
    Slot& slot = timelines_[turn->timeline_id()];
    slot.last_used = counts_.steps;
    if (i == 0 || turns[i - 1].first != turn) ++slot.steps;
  }
}

void EngineLoop::Choose(LaunchedStep* step) {
  std::vector<RowSamplingParams> choices;
  for (LogitsRow& row : step->logits) {
    row.awaits = false;
    choices.push_back(ChoiceOf(row));  // unused if its turn has ended
  }
  network_.Choose(choices);
  step->deferred_sampling = false;
}

void EngineLoop::FinishStep(const LaunchedStep& step) {
  std::vector<SampledToken> chosen(step.logits.size());
  network_.Finish(chosen);
  if (const Status status = network_.memory().status(); !status.ok()) return Fail(status);
  const int64_t now = clock_.MonotonicNs();
  const int64_t took = now - std::max(step.begun_ns, std::exchange(step_finished_ns_, now));
  step_time_.Note(step.decoding, step.prompt_work, took, step.scored_rows);
  if (step.prompt_rows > 0) sequence_storage_.NotePrefill(step.prompt_rows + step.decoding, took);
  for (size_t i = 0; i < chosen.size(); ++i) {
    const LogitsRow& row = step.logits[i];
    if (row.turn->finished()) continue;
    row.chooses() ? row.turn->Take(chosen[i], now) : row.turn->StoreScore(row.scored, chosen[i]);
  }
  CollectHiddenStates(step);
  for (RunningTurn* turn : step.prefilling) {
    if (!turn->wants_logits() && turn->remaining() == 0) turn->FinishPrefill();
  }
}

void EngineLoop::CollectHiddenStates(const LaunchedStep& step) {
  const int64_t width = network_.shape().hidden;
  std::span<const float> states = step.hidden.empty() ? std::span<const float>() : network_.hidden_states();
  for (const auto& [turn, first, rows] : step.hidden) {
    const auto size = static_cast<size_t>(rows * width);
    if (!turn->finished()) turn->CollectHiddenStates(first, states.first(size), width);
    states = states.subspan(size);
  }
  CHECK(states.empty());
}

void EngineLoop::FinishLaunchedStep() {
  if (!launched_) return;
  FailIfThrows([this] { FinishStep(*launched_); });
  launched_.reset();
}

}  // namespace ringside
