#include "engine/model/model.h"

#include <algorithm>
#include <cmath>

#include "engine/model/model_state.h"

namespace ringside {
namespace {

constexpr auto kLogitRows = static_cast<int64_t>(kMostUnchosenRows);  // of logits on the device at a time

std::vector<const Weight*> Pointers(const std::vector<Weight>& weights) {
  std::vector<const Weight*> out;
  for (const Weight& weight : weights) out.push_back(&weight);
  return out;
}

}  // namespace

Result<Tensor> ScratchTensor::Rows(Backend& backend, int64_t rows) {
  const auto bytes = static_cast<size_t>(StorageBytes(dtype, rows * columns));
  if (memory.bytes() < bytes) {
    memory = Buffer();  // give back first: both at once might not fit
    ASSIGN_OR_RETURN(memory, backend.Allocate(bytes));
  }
  return Tensor{dtype, memory.data(), rows, columns, columns};
}

ModelScratch::ModelScratch(const ModelSpec& spec, DType between)
    : stream{spec.hidden},
      normed{spec.hidden, between},
      qkv{spec.qkv_columns(), between},
      attended{spec.heads * spec.head_dim, between},
      mlp_in{spec.mlp_in_columns(), between},
      mlp_mid{spec.mlp == MlpKind::kSwiGlu ? spec.ffn : 0, between},
      wanted{spec.hidden},
      logits{spec.vocab} {}

Model::Model(std::unique_ptr<State> state) : state_(std::move(state)) {}
Model::~Model() = default;

const ModelSpec& Model::spec() const { return state_->spec; }
Backend& Model::backend() const { return *state_->backend; }
NetworkShape Model::shape() const {
  const ModelSpec& spec = state_->spec;
  return {.layers = spec.layers,
          .kv_heads = spec.kv_heads,
          .head_dim = spec.head_dim,
          .vocab = spec.vocab,
          .position_limit = spec.learned_positions ? spec.trained_context : 0,
          // Products of a row with all weights of the layers; with one key and one value of every head.
          .attention_context = static_cast<double>(spec.layer_weights()) /
                               static_cast<double>(2 * spec.layers * spec.heads * spec.head_dim)};
}
bool Model::runs_ahead() const { return backend().runs_ahead(); }
const TokenizerData& Model::tokenizer_data() const { return state_->tokenizer; }
const std::string& Model::chat_template() const { return state_->chat_template; }
const Fingerprint& Model::fingerprint() const { return state_->fingerprint; }
int64_t Model::weight_bytes() const { return state_->weights.bytes; }

Status Model::Reserve(int64_t rows) {
  ModelScratch& own = state_->scratch;
  for (ScratchTensor* tensor :
       {&own.stream, &own.normed, &own.qkv, &own.attended, &own.mlp_in, &own.mlp_mid, &own.wanted}) {
    RETURN_IF_ERROR(tensor->Rows(*state_->backend, rows).status());
  }
  return own.logits.Rows(*state_->backend, std::min(rows, kLogitRows)).status();
}

// Appends every part to its ring and notes ids, positions, segments and wanted rows, part after part.
void Model::State::BuildStep(std::span<const StepPart> parts) {
  step.ids.clear();
  step.positions.clear();
  step.first_live.clear();
  step.wanted_rows.clear();
  step.segments.clear();
  ++step.number;
  for (const StepPart& part : parts) {
    CHECK(part.cache != nullptr);
    const KvShape& shape = part.cache->shape();
    CHECK_EQ(shape.layers, spec.layers);
    CHECK_EQ(shape.kv_heads, spec.kv_heads);
    CHECK_EQ(shape.head_dim, spec.head_dim);
    CHECK(shape == parts.front().cache->shape());
    const auto rows = static_cast<int64_t>(part.tokens.size());
    const auto first_row = static_cast<int64_t>(step.ids.size());
    Ring& ring = part.cache->ring();
    const int64_t position = ring.Append(rows);
    if (spec.learned_positions) CHECK_LE(position + rows, spec.trained_context);
    for (int64_t r = 0; r < rows; ++r) {
      const TokenId id = part.tokens[static_cast<size_t>(r)];
      CHECK_LT(id, spec.vocab);
      step.ids.push_back(id);
      step.positions.push_back(position + r);
      step.first_live.push_back(ring.FirstHeld(position + r));
      const bool last = r + 1 == rows;
      if (part.logits == StepPart::Logits::kAll || (part.logits == StepPart::Logits::kLast && last)) {
        step.wanted_rows.push_back(first_row + r);
      }
    }
    step.segments.push_back({.first_row = first_row,
                             .rows = rows,
                             .position = position,
                             .pinned = ring.window().pinned,
                             .slab = part.cache->slab()});
  }
  // Only now has first_live its final place.
  for (AttentionSegment& segment : step.segments) segment.first_live = step.first_live.data() + segment.first_row;
}

// The own angles of every row, one sequence's in the table itself; those of the pinned query in a second table only if
// some row has evicted something.
void Model::State::ComputeAngles(std::span<const StepPart> parts) {
  const size_t pairs = spec.inverse_frequencies.size(), rows = step.ids.size();
  bool evicted = false;
  for (size_t s = 0; s < parts.size(); ++s) {
    const AttentionSegment& segment = step.segments[s];
    const int64_t last = segment.position + segment.rows - 1;
    // Where c falls behind t it stays behind, so the last row speaks for its segment.
    evicted |= segment.pinned > 0 && parts[s].cache->ring().PinnedQueryPosition(last) != last;
  }
  const auto count = static_cast<int64_t>(rows);
  if (parts.size() == 1 && !evicted && AngleTable::SideBySide(step.positions.front(), count)) {
    const AngleTable::Angles own = step.table.Of(spec, step.positions.front());
    for (const int64_t position : step.positions) step.table.Of(spec, position);
    step.angles = {own.cosines, own.sines, own.cosines, own.sines};
    return;
  }
  const auto copy = [&](int64_t position, size_t row, std::vector<float>& cosines, std::vector<float>& sines) {
    const AngleTable::Angles angles = step.table.Of(spec, position);
    std::copy_n(angles.cosines, pairs, cosines.data() + row * pairs);
    std::copy_n(angles.sines, pairs, sines.data() + row * pairs);
  };
  step.own_cos.resize(rows * pairs);
  step.own_sin.resize(rows * pairs);
  for (size_t r = 0; r < rows; ++r) copy(step.positions[r], r, step.own_cos, step.own_sin);
  step.angles = {step.own_cos.data(), step.own_sin.data(), step.own_cos.data(), step.own_sin.data()};
  if (!evicted) return;
  step.pinned_cos = step.own_cos;
  step.pinned_sin = step.own_sin;
  for (size_t s = 0; s < parts.size(); ++s) {
    const AttentionSegment& segment = step.segments[s];
    for (int64_t r = 0; r < segment.rows; ++r) {
      const int64_t t = segment.position + r, c = parts[s].cache->ring().PinnedQueryPosition(t);
      if (c != t) copy(c, static_cast<size_t>(segment.first_row + r), step.pinned_cos, step.pinned_sin);
    }
  }
  step.angles.pinned_cos = step.pinned_cos.data();
  step.angles.pinned_sin = step.pinned_sin.data();
}

void Model::State::Norm(Tensor x, const DeviceVector& weight, const DeviceVector& bias, Tensor y) const {
  if (spec.norm == NormKind::kRms)
    backend->RmsNorm(x, weight.data(), spec.norm_eps, y);
  else
    backend->LayerNorm(x, weight.data(), bias.data(), spec.norm_eps, y);
}

// x += Attention(Norm(x)); x += Mlp(Norm(x)): every family's block (Vaswani et al. 2017, pre-norm).
void Model::State::DecoderBlock(int64_t layer, const KvShape& shape, Tensor stream) {
  const LayerWeights& w = weights.layers[static_cast<size_t>(layer)];
  const int64_t rows = stream.rows, queries = spec.heads * spec.head_dim, keys = spec.kv_heads * spec.head_dim;
  Backend& device = *backend;
  const Tensor normed = scratch.normed.Rows(device, rows).value();
  const Tensor qkv = scratch.qkv.Rows(device, rows).value();
  const Tensor attended = scratch.attended.Rows(device, rows).value();

  Norm(stream, w.attention_norm, w.attention_norm_bias, normed);
  device.Linear({.x = normed,
                 .weights = Pointers(w.qkv),
                 .bias = w.qkv_bias.data(),
                 .y = qkv,
                 .rounded_bias = w.qkv_bias.rounded.data.data()});
  if (spec.qk_norm) {
    device.RmsNormHeads(qkv.Columns(0, queries), spec.heads, w.query_norm.data(), spec.norm_eps);
    device.RmsNormHeads(qkv.Columns(queries, keys), spec.kv_heads, w.key_norm.data(), spec.norm_eps);
  }
  const auto scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(spec.head_dim)));
  device.Attention({.qkv = qkv,
                    .out = attended,
                    .layer = layer,
                    .shape = shape,
                    .heads = spec.heads,
                    .rotary = spec.rotary,
                    .pairs = spec.rope_pairs,
                    .angles = step.angles,
                    .scale = scale,
                    .segments = step.segments,
                    .step = step.number});
  const Weight* attention_out[] = {&w.attention_out};
  device.Linear(
      {.x = attended, .weights = attention_out, .bias = w.attention_out_bias.data(), .y = stream, .accumulate = true});

  const Tensor mlp_in = scratch.mlp_in.Rows(device, rows).value();
  Norm(stream, w.mlp_norm, w.mlp_norm_bias, normed);
  device.Linear({.x = normed,
                 .weights = Pointers(w.mlp_in),
                 .bias = w.mlp_in_bias.data(),
                 .y = mlp_in,
                 .rounded_bias = w.mlp_in_bias.rounded.data.data()});
  Tensor mlp_mid = mlp_in;
  if (spec.mlp == MlpKind::kSwiGlu) {
    mlp_mid = scratch.mlp_mid.Rows(device, rows).value();
    device.SiluMultiply(mlp_in, mlp_mid);
  } else {
    device.Gelu(mlp_mid, spec.mlp == MlpKind::kGeluTanh);
  }
  const Weight* mlp_out[] = {&w.mlp_out};
  device.Linear({.x = mlp_mid, .weights = mlp_out, .bias = w.mlp_out_bias.data(), .y = stream, .accumulate = true});
}

// A few rows at a time: a whole prompt's logits would not fit.
template <class Take>
void Model::State::Logits(Tensor stream, const Take& take) {
  const auto rows = static_cast<int64_t>(step.wanted_rows.size());
  if (rows == 0) return;
  const int64_t begin = step.wanted_rows.front();
  Tensor wanted;
  if (step.wanted_rows.back() - begin + 1 == rows) {  // ascending: all together, as in every step that only decodes
    wanted = stream.Rows(begin, rows);
  } else {
    wanted = scratch.wanted.Rows(*backend, rows).value();
    backend->GatherRows(stream, step.wanted_rows, wanted);
  }
  const Tensor normed = scratch.normed.Rows(*backend, rows).value();
  Norm(wanted, weights.final_norm, weights.final_norm_bias, normed);
  const Weight* head[] = {&weights.head()};
  for (int64_t first = 0; first < rows; first += kLogitRows) {
    const int64_t count = std::min(kLogitRows, rows - first);
    const Tensor out = scratch.logits.Rows(*backend, count).value();
    backend->Linear({.x = normed.Rows(first, count), .weights = head, .y = out});
    take(first, out);
  }
}

Tensor Model::State::Hidden(std::span<const StepPart> parts) {
  CHECK(!parts.empty());
  BuildStep(parts);
  ComputeAngles(parts);
  const Tensor stream = scratch.stream.Rows(*backend, static_cast<int64_t>(step.ids.size())).value();
  backend->Embed(weights.embedding, step.ids, stream);
  if (spec.learned_positions) backend->AddPositions(weights.positions, step.positions, stream);
  const KvShape& shape = parts.front().cache->shape();
  for (int64_t layer = 0; layer < spec.layers; ++layer) DecoderBlock(layer, shape, stream);
  return stream;
}

void Model::Forward(std::span<const StepPart> parts, std::span<float> logits) {
  const Tensor stream = state_->Hidden(parts);
  const int64_t vocab = state_->spec.vocab;
  CHECK_EQ(static_cast<int64_t>(logits.size()), static_cast<int64_t>(state_->step.wanted_rows.size()) * vocab);
  state_->Logits(stream, [&](int64_t first, Tensor rows) {
    backend().CopyToHost(logits.data() + first * vocab, rows.data,
                         static_cast<size_t>(rows.rows * vocab) * sizeof(float));
  });
  backend().Synchronize();
}

void Model::Begin(std::span<const StepPart> parts, std::span<const TokenChoice> choices) {
  const Tensor stream = state_->Hidden(parts);
  CHECK_EQ(choices.size(), state_->step.wanted_rows.size());
  BegunStep& begun = state_->begun.emplace_back();
  begun.chosen.resize(choices.size());
  state_->Logits(stream, [&](int64_t first, Tensor rows) {
    const auto begin = static_cast<size_t>(first), count = static_cast<size_t>(rows.rows);
    backend().ChooseTokens(rows, choices.subspan(begin, count), std::span(begun.chosen).subspan(begin, count));
  });
  begun.submission = backend().Submit();
}

void Model::BeginUnchosen(std::span<const StepPart> parts) {
  const Tensor stream = state_->Hidden(parts);
  CHECK_LE(state_->step.wanted_rows.size(), kMostUnchosenRows);
  state_->Logits(stream, [&](int64_t, Tensor rows) { state_->unchosen = rows; });
  backend().Flush();
}

void Model::Choose(std::span<const TokenChoice> choices) {
  BegunStep& begun = state_->begun.emplace_back();
  begun.chosen.resize(choices.size());
  backend().ChooseTokens(state_->unchosen, choices, begun.chosen);
  begun.submission = backend().Submit();
}

void Model::Finish(std::span<ChosenToken> chosen) {
  CHECK(!state_->begun.empty());
  const BegunStep& begun = state_->begun.front();
  CHECK_EQ(chosen.size(), begun.chosen.size());
  backend().WaitFor(begun.submission);
  std::copy(begun.chosen.begin(), begun.chosen.end(), chosen.begin());
  state_->begun.pop_front();
}

}  // namespace ringside
