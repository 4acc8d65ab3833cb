#include "engine/model/ranks/slab_part.h"

#include <algorithm>
#include <cstring>
#include <numeric>

namespace ringside {
namespace {

constexpr int64_t kFloat = sizeof(float);
// Pages of the whole slab are multiples of a ratio's denominator.
constexpr int64_t kMaxDenominator = 128, kRounded = 64;

int64_t StateLayers(const ModelSpec& spec, int64_t end) {
  int64_t count = 0;
  for (int64_t layer = 0; layer < end; ++layer) count += IsRecurrent(spec.Layer(layer).mixer) ? 1 : 0;
  return count;
}

SlabRatio Larger(SlabRatio a, int64_t own, int64_t all) {
  return all > 0 && own * a.all > a.own * all ? SlabRatio{own, all} : a;
}

/// Appends a chunk; one with the same bytes as the last ones, at the same distance, continues their run.
void Append(int64_t offset, int64_t bytes, std::byte* host, std::vector<SlabRun>* runs) {
  if (!runs->empty()) {
    SlabRun& last = runs->back();
    if (last.count == 1 && last.bytes == bytes && offset >= last.offset + bytes) {
      last.stride = offset - last.offset, last.host_stride = host - last.host;
    }
    if (last.bytes == bytes && last.stride > 0 && offset == last.offset + last.count * last.stride &&
        host == last.host + last.count * last.host_stride) {
      ++last.count;
      return;
    }
    if (last.count == 1) last.stride = last.host_stride = 0;
  }
  runs->push_back({.offset = offset, .bytes = bytes, .host = host});
}

}  // namespace

SlabPart::SlabPart(const Shard& shard, const ModelSpec& spec)
    : own_(shard.Of(spec)),
      first_layer_(spec.KvIndex(shard.layers.begin)),
      first_state_layer_(StateLayers(spec, shard.layers.begin)),
      state_layers_(StateLayers(spec, spec.layers)),
      share_(ShareOf(shard, spec.recurrence)),
      whole_state_(shard.whole()) {
  for (int64_t layer = shard.layers.begin; layer < shard.layers.end; ++layer) {
    if (!spec.IsAttention(layer) || !spec.OwnsKeys(layer)) continue;
    heads_.push_back(shard.Heads(spec.Heads(layer), spec.KvSizes(layer).kv_heads));
  }
  PlanPieces(spec.recurrence);
  ratio_ = RatioOf({.layers = spec.attention_layers(),
                    .kv_heads = spec.kv_heads,
                    .head_dim = spec.head_dim,
                    .state = spec.state(),
                    .latent_dim = spec.latent.rank,
                    .varied = spec.varied_layers()});
}

KvShape SlabPart::ShapeOf(const KvShape& whole) const {
  KvShape shape = whole;
  shape.layers = own_.attention_layers();
  shape.kv_heads = own_.kv_heads;
  shape.varied = own_.varied_layers();
  shape.state = own_.state();
  shape.state.slots = whole.state.slots;
  return shape;
}

SlabRatio SlabPart::RatioOf(const KvShape& whole) const {
  const KvShape own = ShapeOf(whole);
  SlabRatio ratio{1, kRounded};  // at least: every rank has a slab
  ratio = Larger(ratio, own.tile_bytes(), whole.tile_bytes());
  const auto aligned = [](int64_t bytes) {
    return (bytes + StateShape::kAlignment - 1) / StateShape::kAlignment * StateShape::kAlignment;
  };
  ratio = Larger(ratio, aligned(own.state.slot_bytes()), whole.state.slot_bytes());
  ratio = Larger(ratio, own.state.tail_bytes(), whole.state.tail_bytes());
  const int64_t common = std::gcd(ratio.own, ratio.all);
  ratio = {ratio.own / common, ratio.all / common};
  if (ratio.all > kMaxDenominator) ratio = {(ratio.own * kRounded + ratio.all - 1) / ratio.all, kRounded};
  return ratio;
}

void SlabPart::PlanPieces(const RecurrenceShape& whole) {
  using enum RecurrentPart;
  const RecurrenceShape& own = own_.recurrence;
  if (whole.mixer == Mixer::kNone) return;
  const std::vector<RecurrentPart> channels = ChannelParts(whole);
  std::vector<RecurrentPart> row = channels;
  if (whole.mixer != Mixer::kConvolution) row.insert(row.end(), {kKeys, kValues, kDecays});
  boundary_floats_ = whole.state_floats() + (whole.kernel - 1) * whole.channels();
  for (const RecurrentPart part : row) row_floats_ += SizeOf(whole, part);
  if (whole_state_) {
    boundary_ = {{.floats = whole.boundary_floats()}};
    tail_row_ = {{.floats = whole.row_floats()}};
    return;
  }
  const int64_t state = whole.key_size * whole.value_size;  // floats of a value head
  int64_t at = 0;
  for (const IndexRange& heads : share_.value_heads) {
    boundary_.push_back({.whole = heads.begin * state, .own = at, .floats = heads.size() * state});
    at += heads.size() * state;
  }
  for (int64_t i = 0; i + 1 < whole.kernel; ++i) {
    AddPieces(whole, channels, whole.state_floats() + i * whole.channels(), own.state_floats() + i * own.channels(),
              &boundary_);
  }
  AddPieces(whole, row, 0, 0, &tail_row_);
}

void SlabPart::AddPieces(const RecurrenceShape& whole, std::span<const RecurrentPart> parts, int64_t whole_at,
                         int64_t own_at, std::vector<Piece>* pieces) const {
  for (const RecurrentPart part : parts) {
    for (const IndexRange& range : RangesOf(share_, whole, part)) {
      pieces->push_back({.whole = whole_at + range.begin,
                         .own = own_at,
                         .floats = range.size(),
                         .saves = part != RecurrentPart::kKeys || share_.saves_keys});
      own_at += range.size();
    }
    whole_at += SizeOf(whole, part);
  }
}

std::vector<SlabRun> SlabPart::RunsOf(const KvShape& whole, const SlabRun& run, bool saved) const {
  std::vector<SlabRun> runs;
  if (run.offset >= whole.state.bytes()) {
    AddTiles(whole, run, saved, &runs);
    return runs;
  }
  const StateShape own = ShapeOf(whole).state;
  if (own.empty()) return runs;
  const StateUnits boundaries{
      .pieces = boundary_, .whole_bytes = whole.state.boundary_bytes, .own_bytes = own.boundary_bytes};
  const StateUnits tail{.pieces = tail_row_,
                        .whole_begin = whole.state.TailOffset(0, 0),
                        .whole_bytes = whole.state.tail_row_bytes,
                        .own_begin = own.TailOffset(0, 0),
                        .own_bytes = own.tail_row_bytes,
                        .per_layer = StateShape::kChunk};
  AddState(run.offset < tail.whole_begin ? boundaries : tail, run, saved, &runs);
  return runs;
}

void SlabPart::ClearPadding(const KvShape& whole, const SlabRun& run) const {
  if (run.offset >= whole.state.bytes() || whole_state_) return;
  const bool tail = run.offset >= whole.state.TailOffset(0, 0);
  const int64_t unit = tail ? whole.state.tail_row_bytes : whole.state.boundary_bytes,
                used = (tail ? row_floats_ : boundary_floats_) * kFloat,
                begin = run.offset - (tail ? whole.state.TailOffset(0, 0) : 0), end = begin + run.bytes;
  if (used == unit) return;
  for (int64_t at = begin / unit * unit; at < end; at += unit) {
    const int64_t first = std::max(begin, at + used), last = std::min(end, at + unit);
    if (first < last) std::memset(run.host + (first - begin), 0, static_cast<size_t>(last - first));
  }
}

// In a whole slab a rank's heads are contiguous within each of its layers of every tile; its own slab has only those.
void SlabPart::AddTiles(const KvShape& whole, const SlabRun& run, bool saved, std::vector<SlabRun>* runs) const {
  const KvShape own = ShapeOf(whole);
  if (own.layers == 0) return;
  const int64_t tile = (run.offset - whole.state.bytes()) / whole.tile_bytes(), tiles = run.bytes / whole.tile_bytes();
  if (own.tile_bytes() == whole.tile_bytes()) {  // all heads of all layers, which are the same on every rank
    if (saved && !heads_.front().saves) return;
    runs->push_back({.offset = own.TileBegin(tile), .bytes = run.bytes, .host = run.host});
    return;
  }
  const auto first = [&](int64_t layer) {  // of the rank's heads in a whole tile
    return whole.LayerOffset(first_layer_ + layer) +
           heads_[static_cast<size_t>(layer)].kv_heads.begin *
               whole.HeadTileBytes(whole.Layer(first_layer_ + layer).head_dim);
  };
  if (whole.varied.empty()) {
    if (saved && !heads_.front().saves) return;
    runs->push_back({.offset = own.TileBegin(tile),
                     .bytes = tiles * own.tile_bytes(),
                     .host = run.host + first(0),
                     .host_layer_stride = whole.layer_tile_bytes(),
                     .host_tile_stride = whole.tile_bytes()});
    return;
  }
  for (int64_t layer = 0; layer < own.layers; ++layer) {
    if (saved && !heads_[static_cast<size_t>(layer)].saves) continue;
    runs->push_back({.offset = own.TileBegin(tile) + own.LayerOffset(layer),
                     .bytes = own.LayerTileBytes(layer),
                     .host = run.host + first(layer),
                     .count = tiles,
                     .stride = own.tile_bytes(),
                     .host_stride = whole.tile_bytes()});
  }
}

// Piece by piece: each has equal chunks at equal distances in all layers.
void SlabPart::AddState(const StateUnits& units, const SlabRun& run, bool saved, std::vector<SlabRun>* runs) const {
  const int64_t begin = run.offset - units.whole_begin, end = begin + run.bytes;
  const int64_t own_layers = StateLayers(own_, own_.layers), of_all = state_layers_ * units.per_layer,
                of_own = own_layers * units.per_layer, skipped = first_state_layer_ * units.per_layer;
  for (const Piece& piece : units.pieces) {
    if (saved && !piece.saves) continue;
    for (int64_t unit = begin / units.whole_bytes; unit * units.whole_bytes < end; ++unit) {
      const int64_t within = unit % of_all - skipped;  // among the rank's units of the slot
      if (within < 0 || within >= of_own) continue;
      const int64_t at = unit * units.whole_bytes + piece.whole * kFloat;
      const int64_t first = std::max(begin, at), last = std::min(end, at + piece.floats * kFloat);
      if (first >= last) continue;
      const int64_t own = (unit / of_all * of_own + within) * units.own_bytes + piece.own * kFloat + first - at;
      Append(units.own_begin + own, last - first, run.host + (first - begin), runs);
    }
  }
}

}  // namespace ringside
