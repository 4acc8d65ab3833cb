#include "engine/model/step_plan.h"

#include <algorithm>

#include "base/check.h"
#include "engine/vision/image_tokens.h"
#include "kernels/deferred_token.h"

namespace ringside {
namespace {

void AddRow(const Ring& ring, int64_t position, TokenId id, StepPlan* plan) {
  plan->ids.push_back(id);
  plan->positions.push_back(position);
  plan->first_live.push_back(ring.FirstHeld(position));
  plan->pinned_positions.push_back(ring.window().pinned > 0 ? ring.PinnedQueryPosition(position) : position);
}

/// Without images the rotary positions equal the others.
void DropEqualRotary(bool has_images, StepPlan* plan) {
  if (has_images) return;
  plan->rotary.clear();
  plan->pinned_rotary.clear();
}

}  // namespace

void StepPlan::PointSegments(std::span<const size_t> state_ends) {
  size_t begin = 0;
  for (size_t i = 0; i < segments.size(); ++i) {
    segments[i].first_live = first_live.data() + segments[i].first_row;
    segments[i].last_seen = last_seen.empty() ? nullptr : last_seen.data() + segments[i].first_row;
    segments[i].state_writes = std::span(state_writes).subspan(begin, state_ends[i] - begin);
    begin = state_ends[i];
  }
}

void StepPlan::Clear() {
  ids.clear();
  positions.clear();
  first_live.clear();
  last_seen.clear();
  pinned_positions.clear();
  rotary.clear();
  pinned_rotary.clear();
  wanted_rows.clear();
  hidden_rows.clear();
  segments.clear();
  adapters.clear();
  virtual_rows.clear();
  image_rows.clear();
  inputs.clear();
  state_writes.clear();
  rows_before.clear();
}

size_t StepPlan::awaited_tokens() const {
  size_t count = 0;
  for (const TokenId id : ids) {
    if (IsDeferredToken(id)) count = std::max(count, DeferredTokenIndex(id) + 1);
  }
  return count;
}

void StepPlanner::Plan(std::span<const StepPart> parts, StepPlan* plan) {
  CHECK(!parts.empty());
  plan->Clear();
  state_ends_.clear();
  caches_.clear();
  for (const StepPart& part : parts) {
    CHECK(part.cache != nullptr);
    const KvShape& shape = part.cache->shape();
    CHECK_EQ(shape.layers, spec_.attention_layers());
    CHECK_EQ(shape.kv_heads, spec_.kv_heads);
    CHECK_EQ(shape.head_dim, spec_.head_dim);
    CHECK_EQ(shape.latent_dim, spec_.latent.rank);
    CHECK(shape.varied == spec_.varied_layers());
    CHECK(shape == parts.front().cache->shape());
    const auto rows = static_cast<int64_t>(part.tokens.size()), first_row = plan->rows();
    const auto [position, state_slot] = part.cache->Append(rows, &plan->state_writes);
    const Ring& ring = part.cache->ring();
    const int64_t pinned = ring.window().pinned;
    if (spec_.encoder_layers > 0 && position < pinned) {
      CHECK(position == 0 && rows == pinned);
      plan->inputs.push_back({{part.tokens.begin(), part.tokens.end()}, part.cache->slab()});
      continue;
    }
    if (spec_.learned_positions) CHECK_LE(position + rows, spec_.trained_context);
    auto image_row = part.image_rows.begin();
    for (int64_t r = 0; r < rows; ++r) {
      const TokenId id = part.tokens[static_cast<size_t>(r)];
      AddRow(ring, position + r, id < spec_.vocab ? id : 0, plan);
      if (IsImageToken(id)) {
        CHECK(image_row != part.image_rows.end());
        plan->image_rows.push_back({first_row + r, *image_row++});
      }
      const bool last = r + 1 == rows;
      if (part.logits == StepPart::Logits::kAll || (part.logits == StepPart::Logits::kLast && last)) {
        plan->wanted_rows.push_back(first_row + r);
      }
      if (part.hidden_states) plan->hidden_rows.push_back(first_row + r);
    }
    plan->segments.push_back({.first_row = first_row,
                              .rows = rows,
                              .position = position,
                              .pinned = pinned,
                              .slab = part.cache->slab(),
                              .history = part.cache->history(),
                              .branch = part.cache->branch(),
                              .state_slot = state_slot});
    state_ends_.push_back(plan->state_writes.size());
    caches_.push_back(part.cache);
    NoteVirtualRows(part, first_row, plan);
    NoteRotary(ring, part.image_grids, position, rows, plan);
    if (spec_.images_see_all) NoteLastSeen(part, position, plan);
    if (part.adapter != 0) {
      plan->adapters.resize(static_cast<size_t>(first_row));
      plan->adapters.resize(static_cast<size_t>(first_row + rows), part.adapter);
    }
  }
  if (!plan->adapters.empty()) plan->adapters.resize(plan->ids.size());
  if (plan->image_rows.empty()) plan->last_seen.clear();
  DropEqualRotary(std::ranges::any_of(parts, [](const StepPart& part) { return !part.image_grids.empty(); }), plan);
  plan->shape = parts.front().cache->shape();
  plan->PointSegments(state_ends_);
  shared_prefixes_.Find(caches_, plan->segments);
  if (spec_.draft_layers > 0) NoteRowsBefore(plan);
  ComputeAngles(plan);
}

int64_t StepPlanner::RowBefore(const void* slab, int64_t position) const {
  const auto found = last_rows_.find(slab);
  if (found == last_rows_.end()) return -1;
  const auto& [first, rows, first_row] = found->second;
  return position > first && position <= first + rows ? first_row + position - 1 - first : -1;
}

void StepPlanner::NoteRowsBefore(StepPlan* plan) {
  for (const AttentionSegment& segment : plan->segments) {
    plan->rows_before.push_back(RowBefore(segment.slab, segment.position));
  }
  last_rows_.clear();
  for (const AttentionSegment& segment : plan->segments) {
    last_rows_[segment.slab] = {segment.position, segment.rows, segment.first_row};
  }
}

void StepPlanner::PlanDraft(std::span<const DraftRow> rows, int64_t ahead, StepPlan* plan) {
  plan->Clear();
  for (const auto& [part, token, row_before] : rows) {
    const Ring& ring = part->cache->ring();
    const int64_t position = ring.next() + ahead;
    plan->segments.push_back({.first_row = plan->rows(),
                              .rows = 1,
                              .position = position,
                              .pinned = ring.window().pinned,
                              .slab = part->cache->slab()});
    AddRow(ring, position, token, plan);
    NoteRotary(ring, part->image_grids, position, 1, plan);
    plan->rows_before.push_back(ahead == 0 ? RowBefore(part->cache->slab(), position) : row_before);
  }
  DropEqualRotary(std::ranges::any_of(rows, [](const DraftRow& row) { return !row.part->image_grids.empty(); }), plan);
  plan->shape = rows.front().part->cache->shape();
  const std::vector<size_t> no_states(rows.size());
  plan->PointSegments(no_states);
  ComputeAngles(plan);
}

void StepPlanner::NoteVirtualRows(const StepPart& part, int64_t first_row, StepPlan* plan) const {
  const auto embedded = [this](TokenId id) { return id < spec_.vocab || IsImageToken(id); };
  const auto end = std::ranges::find_if(part.tokens, embedded);
  CHECK(std::all_of(end, part.tokens.end(), embedded));
  if (end == part.tokens.begin()) return;
  CHECK_GT(part.adapter, 0);
  plan->virtual_rows.push_back({first_row, end - part.tokens.begin(), part.tokens.front() - spec_.vocab, part.adapter});
}

// Images advance the rotary position by less than their tokens. Without evicted tokens the position against pinned keys
// is the row's own, else less by what the evicted ones have advanced.
void StepPlanner::NoteRotary(const Ring& ring, std::span<const ImageGrid> grids, int64_t position, int64_t rows,
                             StepPlan* plan) const {
  if (std::ranges::all_of(spec_.rotations, [](const Rotation& one) { return one.axes.empty(); })) return;
  const int64_t pinned = ring.window().pinned;
  for (int64_t p = position; p < position + rows; ++p) {
    const RotaryPosition own = RotaryPositionOf(grids, p);
    plan->rotary.push_back(own);
    const int64_t first = pinned == 0 || p < pinned ? pinned : ring.FirstLive(p);
    const int64_t evicted = RotaryPositionOf(grids, first).time - RotaryPositionOf(grids, pinned).time;
    plan->pinned_rotary.push_back(own - evicted);
  }
}

// Consecutive image tokens are those of one image, because markers surround each (ImageFormat).
void StepPlanner::NoteLastSeen(const StepPart& part, int64_t position, StepPlan* plan) const {
  const auto rows = std::ssize(part.tokens);
  for (int64_t r = 0; r < rows; ++r) {
    const auto rest = part.tokens.subspan(static_cast<size_t>(r));
    const auto after = std::ranges::find_if_not(rest, IsImageToken);
    const int64_t count = std::max<int64_t>(after - rest.begin(), 1);
    plan->last_seen.insert(plan->last_seen.end(), static_cast<size_t>(count), position + r + count - 1);
    r += count - 1;
  }
}

void StepPlanner::ComputeAngles(StepPlan* plan) {
  tables_.resize(spec_.rotations.size());
  plan->angle_rows.resize(spec_.rotations.size());
  plan->angles.resize(spec_.rotations.size());
  for (size_t i = 0; i < spec_.rotations.size(); ++i) ComputeAngles(i, plan);
}

// The angles of every row; for a single sequence a view of the table. Angles of pinned queries need a second table only
// if some row has evicted tokens.
void StepPlanner::ComputeAngles(size_t rotation, StepPlan* plan) {
  const Rotation& turns = spec_.rotations[rotation];
  AngleTable& table = tables_[rotation];
  StepPlan::AngleRows& out = plan->angle_rows[rotation];
  RopeAngles& angles = plan->angles[rotation];
  const size_t pairs = turns.inverse_frequencies.size(), rows = plan->ids.size();
  const bool grids = !plan->rotary.empty();
  const bool evicted = grids ? plan->pinned_rotary != plan->rotary : plan->pinned_positions != plan->positions;
  if (!grids && plan->segments.size() == 1 && !evicted &&
      AngleTable::SideBySide(plan->positions.front(), plan->rows())) {
    const AngleTable::Angles own = table.Of(turns, plan->positions.front());
    for (const int64_t position : plan->positions) table.Of(turns, position);
    angles = {own.cosines, own.sines, own.cosines, own.sines};
    return;
  }
  const auto copy = [&](const RotaryPosition& position, size_t row, std::vector<float>& cosines,
                        std::vector<float>& sines) {
    const AngleTable::Angles at = table.Of(turns, position.time);
    std::copy_n(at.cosines, pairs, cosines.data() + row * pairs);
    std::copy_n(at.sines, pairs, sines.data() + row * pairs);
    for (const auto& [axis, place] : {std::pair<int, int64_t>{1, position.row}, {2, position.column}}) {
      if (turns.axes.empty() || place == position.time) continue;
      const AngleTable::Angles other = table.Of(turns, place);
      for (size_t j = 0; j < pairs; ++j) {
        if (turns.axes[j] != axis) continue;
        cosines[row * pairs + j] = other.cosines[j];
        sines[row * pairs + j] = other.sines[j];
      }
    }
  };
  const auto rotary_of = [&](const std::vector<RotaryPosition>& rotary, const std::vector<int64_t>& positions,
                             size_t row) {
    return grids ? rotary[row] : RotaryPosition{positions[row], positions[row], positions[row]};
  };
  out.own_cos.resize(rows * pairs);
  out.own_sin.resize(rows * pairs);
  for (size_t r = 0; r < rows; ++r) copy(rotary_of(plan->rotary, plan->positions, r), r, out.own_cos, out.own_sin);
  angles = {out.own_cos.data(), out.own_sin.data(), out.own_cos.data(), out.own_sin.data()};
  if (!evicted) return;
  out.pinned_cos = out.own_cos;
  out.pinned_sin = out.own_sin;
  for (size_t r = 0; r < rows; ++r) {
    const RotaryPosition c = rotary_of(plan->pinned_rotary, plan->pinned_positions, r);
    if (c != rotary_of(plan->rotary, plan->positions, r)) copy(c, r, out.pinned_cos, out.pinned_sin);
  }
  angles.pinned_cos = out.pinned_cos.data();
  angles.pinned_sin = out.pinned_sin.data();
}

}  // namespace ringside
