#include "engine/loop/step_pipeline.h"

#include <algorithm>

#include "base/check.h"
#include "engine/loop/tenant_index.h"
#include "kernels/deferred_token.h"
#include "kernels/slab_memory.h"

namespace ringside {
namespace {

// Rows of logits that the network keeps until each is sampled.
constexpr auto kMaxRowsWithDrafts = static_cast<int64_t>(kMaxDeferredRows);

/// Whether the turn takes the token of this row.
bool IsWanted(RunningTurn& turn, const TurnRow& row) {
  return !turn.finished() && (turn.drafting() == nullptr || turn.drafting()->IsReached(row));
}

}  // namespace

bool StepPipeline::LaunchedStep::Has(const RunningTurn* turn) const {
  return RowOf(turn).has_value() || std::ranges::count(prefilling, turn) > 0;
}

std::optional<size_t> StepPipeline::LaunchedStep::RowOf(const RunningTurn* turn) const {
  const auto found =
      std::ranges::find_if(logits, [&](const LogitsRow& row) { return row.turn == turn && row.row.samples(); });
  if (found == logits.end()) return std::nullopt;
  return static_cast<size_t>(found - logits.begin());
}

double StepPipeline::Work(int64_t position) const {
  const double context = network_.shape().attention_context;
  return context == 0 ? 1 : 1 + static_cast<double>(position) / context;
}

double StepPipeline::PromptWork(int64_t decoding, double limit_ns) const {
  constexpr double kLeast = 16, kUnmeasured = 64;
  return std::max(kLeast, step_time_.PromptWork(decoding, limit_ns, kUnmeasured));
}

StepLimits StepPipeline::LimitsFor(int64_t decoding, std::span<const StepTurn> turns, bool has_tenants) const {
  StepLimits limits{options_.step_tokens, options_.prefill_chunk, options_.row_tile};
  limits.draft_rows = std::max<int64_t>(0, std::min(options_.step_tokens, kMaxRowsWithDrafts - decoding));
  const double row_ns = step_time_.PromptNs(1);
  if (row_ns > 0) limits.step_work = step_time_.DecodeNs(std::max<int64_t>(1, decoding)) / row_ns;
  if (decoding > 0) {
    // A short prompt that arrives during the step, or just before it, still fits into the next one.
    constexpr double kYieldShare = 0.9;
    limits.prompt_work = PromptWork(decoding, TargetNs());
    limits.yield_work = PromptWork(decoding, kYieldShare * TargetNs());
  } else {
    // Scored rows must not make a step longer than unscored ones.
    double prompts = 0, logits_work = 0;
    for (size_t i = 0; i < turns.size(); ++i) {
      if (turns[i].remaining <= 1) continue;
      prompts += 1;
      logits_work += slots_.running()[i]->scores_next() ? step_time_.LogitsWork() : 0;
    }
    if (logits_work > 0) {
      const double rows = static_cast<double>(options_.step_tokens) * prompts / (prompts + logits_work);
      limits.prompt_rows = std::max(std::min<int64_t>(16, options_.step_tokens), static_cast<int64_t>(rows));
    }
  }
  if (!has_tenants) return limits;
  // A mixed step is not replayed as a graph, so a smaller factor would save the others little time and cost many steps.
  constexpr double kAheadStep = 3;  // times the duration of the decode step
  const int64_t decodes = std::max<int64_t>(1, decoding);
  const double short_ns = kAheadStep * step_time_.DecodeNs(decodes);
  if (short_ns > 0) limits.ahead_work = PromptWork(decodes, std::min(short_ns, TargetNs()));
  return limits;
}

double StepPipeline::NsPerPromptToken() const {
  int64_t decoding = 0;
  double prompts = 0, work = 0;
  for (const auto& turn : slots_.running()) {
    decoding += turn->remaining() == 1 ? 1 : 0;
    if (turn->remaining() <= 1) continue;
    prompts += 1;
    work += Work(turn->sequence()->computed() + turn->remaining() / 2);
  }
  const double each = prompts == 0 ? 1 : work / prompts;
  auto rows = static_cast<double>(options_.step_tokens);
  if (decoding > 0) rows = std::clamp(step_time_.PromptWork(decoding, TargetNs(), 1) / each, 1.0, rows);
  const double prompt_ns = step_time_.PromptNs(rows * each);
  return prompt_ns == 0 ? 0 : (step_time_.DecodeNs(decoding) + prompt_ns) / rows;
}

std::vector<int64_t> StepPipeline::Plan(const LaunchedStep* under_way, const std::vector<bool>& ready) {
  const auto& running = slots_.running();
  // A turn whose cache is still loading starts with the first layers; each layer waits for its rows. If other turns
  // run, it joins them only when the whole cache should arrive before the step ends; otherwise they would wait for it.
  const auto loads = [&](const auto& turn) { return storage_.Loads(turn->sequence()->cache()); };
  const bool alone =
      std::ranges::all_of(running, [&](const auto& turn) { return loads(turn) || !slots_.HasMemory(*turn); });
  const double step_ns = step_time_.DecodeNs(std::ssize(running));
  const auto waits = [&](const auto& turn) {
    return !alone && loads(turn) && storage_.LoadingNs(turn->sequence()->cache()) > step_ns;
  };
  auto [tenants, served] = TenantIndex(running, served_);
  const int64_t now = clock_.MonotonicNs();
  std::vector<StepTurn> turns;
  int64_t decoding = 0;
  for (const auto& turn : running) {
    StepTurn& planned = turns.emplace_back();
    planned.tenant = tenants[turns.size() - 1];
    planned.work = Work(turn->sequence()->computed() + std::min(turn->remaining(), options_.prefill_chunk) / 2);
    planned.urgency = turn->Urgency(now, step_time_.PromptNs(Work(turn->prompt_middle())));
    if (turn->scores_next()) planned.work += step_time_.LogitsWork();
    if (turn->finished() || !slots_.HasMemory(*turn) || waits(turn) || !ready[turns.size() - 1]) continue;
    const bool awaits = under_way != nullptr && under_way->RowOf(turn.get());
    planned.remaining = !awaits ? turn->remaining() : turn->run_ahead() == RunningTurn::RunAhead::kNo ? 0 : 1;
    if (planned.remaining > 1) planned.least = turn->sequence()->LeastChunk(turn->timeline().tokens);
    decoding += planned.remaining == 1 ? 1 : 0;
  }
  const StepLimits limits = LimitsFor(decoding, turns, served.size() > 1);
  PlanDrafts(decoding, &turns);
  return PlanStep(turns, std::move(served), limits);
}

std::optional<DraftCosts> StepPipeline::CostsOfDrafts(int64_t decoding) const {
  if (options_.speculation == Speculation::kOff || !network_.samples_rows()) return std::nullopt;
  const double step_ns = step_time_.DecodeNs(decoding);
  // A branch sees rows of its history, which more rows of that turn could overwrite.
  const auto branches = [](const auto& turn) {
    return turn->branches() > 0 || turn->sequence()->cache()->history() != nullptr;
  };
  if (step_ns == 0 || std::ranges::any_of(slots_.running(), branches)) return std::nullopt;
  DraftCosts costs{.decoding = decoding};
  for (int64_t rows = 1; rows <= DraftCosts::kMaxDrafts; ++rows) {
    costs.extra[static_cast<size_t>(rows)] = step_time_.DraftNs(decoding, rows) / step_ns;
  }
  if (options_.speculation == Speculation::kMtp && network_.has_draft_layer()) {
    costs.layer_token = step_time_.LayerDraftNs(decoding) / step_ns;
  }
  return costs;
}

bool StepPipeline::ExpectsDrafts() {
  const std::optional<DraftCosts> costs = CostsOfDrafts(launched_->decoding);
  bool expects = false;
  for (const LogitsRow& row : launched_->logits) {
    DraftingTurn* drafting = row.turn->drafting();
    if (costs && drafting != nullptr && !row.turn->finished()) expects = drafting->ExpectsDraft(*costs) || expects;
  }
  return expects;
}

void StepPipeline::PlanDrafts(int64_t decoding, std::vector<StepTurn>* turns) {
  if (std::ranges::any_of(*turns, [](const StepTurn& turn) { return turn.remaining > 1; })) return;
  const std::optional<DraftCosts> costs = CostsOfDrafts(decoding);
  std::vector<size_t> by_layer;
  for (size_t i = 0; costs && i < turns->size(); ++i) {
    RunningTurn& turn = *slots_.running()[i];
    if ((*turns)[i].remaining != 1 || turn.drafting() == nullptr) continue;
    if (!slots_.ReserveDrafts(turn, DraftCosts::kMaxDrafts)) continue;
    (*turns)[i].drafts = turn.drafting()->PlanDrafts(*costs);
    if (turn.drafting()->wanted_drafts() > 0) by_layer.push_back(i);
  }
  if (!by_layer.empty()) DraftByLayer(by_layer, turns);
}

void StepPipeline::DraftByLayer(std::span<const size_t> places, std::vector<StepTurn>* turns) {
  std::vector<DraftPart> parts;
  int64_t passes = 0;
  for (const size_t i : places) {
    RunningTurn& turn = *slots_.running()[i];
    const int64_t wanted = turn.drafting()->wanted_drafts();
    parts.push_back({turn.sequence()->cache(), turn.request().tokens.back(), wanted, turn.images().grids()});
    passes = std::max(passes, wanted);
  }
  const int64_t begun = clock_.MonotonicNs();
  std::vector<std::vector<TokenId>> drafted = network_.Draft(parts);
  step_time_.NoteLayerDraft(passes, clock_.MonotonicNs() - begun);
  for (size_t i = 0; i < places.size(); ++i) {
    (*turns)[places[i]].drafts = slots_.running()[places[i]]->drafting()->TakeDrafts(std::move(drafted[i]));
  }
}

bool StepPipeline::MayRunAhead() {
  constexpr double kLongNs = 15e6;
  if (!network_.runs_ahead() || launched_->drafts > 0) return false;
  // Hidden states exist for the last step only, so a step with embedded turns cannot overlap with the next one: either
  // the previous step's tokens would be late or these states would be lost.
  if (std::ranges::any_of(slots_.running(), [](const auto& turn) { return turn->request().embedded; })) return false;
  // Beam search cannot run ahead; the other turns would get two tokens for each one of a beam.
  if (std::ranges::any_of(launched_->logits, [](const LogitsRow& row) { return row.turn->branches() > 0; }))
    return false;
  if (launched_->prompt_rows == 0) return !ExpectsDrafts();
  return launched_->predicted_ns < kLongNs;
}

double StepPipeline::PredictedNs(const LaunchedStep& step) const {
  const double scores = static_cast<double>(step.scored_rows) * step_time_.LogitsWork();
  const double prompt_ns = step_time_.PromptNs(step.prompt_work + scores);
  return prompt_ns == 0 ? 0 : step_time_.DecodeNs(step.decoding) + prompt_ns;
}

void StepPipeline::EncodeImages(std::vector<bool>* ready) {
  const auto& running = slots_.running();
  const auto decoding = std::ranges::count_if(running, [](const auto& turn) { return turn->remaining() == 1; });
  int64_t left = options_.step_tokens;
  if (decoding > 0) left = std::min(left, static_cast<int64_t>(PromptWork(decoding, TargetNs())));
  for (size_t i = 0; i < running.size(); ++i) {
    RunningTurn& turn = *running[i];
    if (turn.finished() || !slots_.HasMemory(turn)) continue;
    while (const ImageInput* image = turn.FindPendingImage()) {
      std::shared_ptr<const ImageRows> rows;
      if (left > 0) {
        int64_t spent = 0;
        rows = network_.EncodeImage(*image->picture, left, &spent);
        left -= spent;
        served_.Add(turn.request().tenant, static_cast<double>(spent));
      }
      if (rows == nullptr) {
        (*ready)[i] = false;
        break;
      }
      turn.images().SetRows(*image, std::move(rows));
    }
  }
}

std::optional<StepPipeline::LaunchedStep> StepPipeline::LaunchNext(const LaunchedStep* under_way) {
  const auto& running = slots_.running();
  std::vector<bool> ready;
  for (const auto& turn : running) ready.push_back(turn->PrepareStep(!storage_.Loads(turn->sequence()->cache())));
  if (network_.image_format() != nullptr) EncodeImages(&ready);
  const std::vector<int64_t> take = Plan(under_way, ready);
  LaunchedStep step;
  step.begun_ns = clock_.MonotonicNs();
  Parts parts;
  parts.awaited.resize(running.size());
  for (size_t i = 0; i < running.size(); ++i) {
    RunningTurn& turn = *running[i];
    if (turn.computes_prompt()) turn.clock().NoteStep(take[i] > 0, step.begun_ns);
    if (take[i] == 0) continue;
    const std::optional<size_t> row = under_way == nullptr ? std::nullopt : under_way->RowOf(&turn);
    if (!row) {
      AddRows(turn, false, turn.NextRows(take[i]), &step, &parts);
      continue;
    }
    parts.awaited[i] = DeferredToken(*row);
    const StepPart part{
        turn.sequence()->cache(), {&parts.awaited[i], 1}, StepPart::Logits::kLast, turn.request().adapter};
    AddRows(turn, true, {{part}, {{.awaits = true}}}, &step, &parts);
  }
  if (parts.parts.empty() || (step.deferred_sampling && step.logits.size() > kMaxDeferredRows)) return std::nullopt;
  Begin(step, parts);
  return step;
}

void StepPipeline::AddRows(RunningTurn& turn, bool awaits, const TurnRows& rows, LaunchedStep* step, Parts* parts) {
  for (const StepPart& part : rows.parts) {
    parts->Add(turn, awaits, part);
    if (part.hidden_states) step->hidden.push_back({&turn, part.cache->ring().next(), std::ssize(part.tokens)});
  }
  for (const TurnRow& row : rows.logits) {
    step->logits.push_back({&turn, row});
    step->scored_rows += row.samples() ? 0 : 1;
    step->drafts += row.drafted > 0 ? 1 : 0;
  }
  if (!rows.samples()) step->prefilling.push_back(&turn);
  step->deferred_sampling |= awaits && turn.run_ahead() == RunningTurn::RunAhead::kDeferred;
}

void StepPipeline::Begin(LaunchedStep& step, const Parts& parts) {
  std::vector<RowSamplingParams> choices;
  const bool samples_later = step.deferred_sampling || step.drafts > 0;
  if (!samples_later) {
    for (const LogitsRow& row : step.logits) choices.push_back(row.turn->Params(row.row));
  }
  for (size_t i = 0; i < parts.parts.size(); ++i) {
    const auto [turn, awaits] = parts.turns[i];
    const bool decodes = awaits || turn->remaining() == 1;
    const int64_t rows = decodes ? 1 : std::ssize(parts.parts[i].tokens);  // SettleDrafts counts accepted drafts
    step.decoding += decodes ? 1 : 0;
    turn->NoteRows(rows);
    (decodes ? counts_.tokens_decoded : counts_.tokens_prefilled) += static_cast<uint64_t>(rows);
    served_.Add(turn->request().tenant, decodes ? VirtualTokenCounter::kDecodeWeight : static_cast<double>(rows));
    if (decodes) continue;
    if (!turn->needs_results()) ++slots_.At(turn->timeline_id()).prompt_steps;
    step.prompt_rows += rows;
    step.prompt_work += static_cast<double>(rows) * Work(turn->sequence()->computed() + rows / 2);
  }
  step.predicted_ns = PredictedNs(step);
  samples_later ? network_.BeginDeferred(parts.parts) : network_.Begin(parts.parts, choices);
  ++counts_.steps;
  for (size_t i = 0; i < parts.parts.size(); ++i) {
    const auto [turn, awaits] = parts.turns[i];
    turn->OnLaunched(parts.parts[i].tokens, awaits);
    Slot& slot = slots_.At(turn->timeline_id());
    slot.last_used = counts_.steps;
    if (i == 0 || parts.turns[i - 1].first != turn) ++slot.steps;
  }
}

void StepPipeline::Choose(LaunchedStep* step) {
  std::vector<RowSamplingParams> choices;
  for (const LogitsRow& row : step->logits)
    choices.push_back(row.turn->Params(row.row));  // unused if its turn has ended
  network_.Choose(choices);
  step->deferred_sampling = false;
}

Status StepPipeline::Finish() {
  const LaunchedStep& step = *launched_;
  RETURN_IF_ERROR(step.drafts > 0 ? FinishDrafts(step) : FinishTokens(step));
  CollectHiddenStates(step);
  for (RunningTurn* turn : step.prefilling) turn->FinishIfComputed();
  return Status::Ok();
}

int64_t StepPipeline::TimeOf(const LaunchedStep& step) {
  const int64_t now = clock_.MonotonicNs();
  return now - std::max(step.begun_ns, std::exchange(step_finished_ns_, now));
}

Status StepPipeline::FinishTokens(const LaunchedStep& step) {
  std::vector<SampledToken> chosen(step.logits.size());
  network_.Finish(chosen);
  RETURN_IF_ERROR(network_.memory().status());
  const int64_t finished_before = step_finished_ns_, took = TimeOf(step);
  if (step.decoding > 0) step_time_.NoteGap(step_finished_ns_ - finished_before, options_.target_itl_ms * 1e6);
  step_time_.Note(step.decoding, step.prompt_work, took, step.scored_rows);
  if (step.prompt_rows > 0) storage_.NotePrefill(step.prompt_rows + step.decoding, took);
  for (size_t i = 0; i < chosen.size(); ++i) {
    const auto& [turn, row] = step.logits[i];
    if (!turn->finished()) turn->Take(row, chosen[i], step_finished_ns_);
  }
  return Status::Ok();
}

Status StepPipeline::FinishDrafts(const LaunchedStep& step) {
  std::vector<RowsLeft> left;
  for (size_t i = 0; i < step.logits.size(); ++i) {
    RunningTurn* turn = step.logits[i].turn;
    if (left.empty() || left.back().turn != turn) left.push_back({turn, i, i});
    left.back().end = i + 1;
  }
  while (true) {
    const std::vector<size_t> rows = TakeKnownRows(step, &left);
    if (rows.empty()) break;
    std::vector<RowSamplingParams> choices;
    for (const size_t i : rows) choices.push_back(step.logits[i].turn->Params(step.logits[i].row));
    std::vector<SampledToken> sampled(rows.size());
    network_.SampleRows(rows, choices, sampled);
    RETURN_IF_ERROR(network_.memory().status());
    const int64_t now = clock_.MonotonicNs();
    for (size_t i = 0; i < rows.size(); ++i) {
      const auto& [turn, row] = step.logits[rows[i]];
      if (IsWanted(*turn, row)) turn->Take(row, sampled[i], now);
    }
  }
  step_time_.NoteDrafts(step.decoding, step.drafts, TimeOf(step));
  counts_.tokens_drafted += static_cast<uint64_t>(step.drafts);
  for (const auto& [turn, row] : step.logits) {
    if (row.drafted == 0) SettleDrafts(*turn);
  }
  return Status::Ok();
}

std::vector<size_t> StepPipeline::TakeKnownRows(const LaunchedStep& step, std::vector<RowsLeft>* left) const {
  std::vector<size_t> rows;
  for (auto& [turn, next, end] : *left) {
    if (next == end || !IsWanted(*turn, step.logits[next].row)) continue;
    const auto after = static_cast<int64_t>(end - next) - 1;
    const bool known =
        network_.runs_ahead() && turn->drafting() != nullptr && turn->drafting()->ParamsKnownAhead(after);
    const size_t until = known ? end : next + 1;
    while (next < until) rows.push_back(next++);
  }
  return rows;
}

void StepPipeline::SettleDrafts(RunningTurn& turn) {
  if (turn.drafting() == nullptr) return;
  const int64_t accepted = turn.drafting()->SettleDrafts();
  turn.NoteRows(accepted);
  served_.Add(turn.request().tenant, VirtualTokenCounter::kDecodeWeight * static_cast<double>(accepted));
  counts_.tokens_decoded += static_cast<uint64_t>(accepted);
  counts_.drafts_accepted += static_cast<uint64_t>(accepted);
}

void StepPipeline::Advance() {
  if (next_) {
    for (LogitsRow& row : next_->logits) row.row.awaits = false;  // the tokens before these rows are known now
    if (next_->deferred_sampling) Choose(&*next_);
  }
  launched_ = std::exchange(next_, std::nullopt);
}

void StepPipeline::CollectHiddenStates(const LaunchedStep& step) {
  const int64_t width = network_.shape().hidden;
  std::span<const float> states = step.hidden.empty() ? std::span<const float>() : network_.hidden_states();
  for (const auto& [turn, first, rows] : step.hidden) {
    const auto size = static_cast<size_t>(rows * width);
    if (!turn->finished()) turn->CollectHiddenStates(first, states.first(size), width);
    states = states.subspan(size);
  }
  CHECK(states.empty());
}

}  // namespace ringside
