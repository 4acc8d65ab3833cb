#include "engine/model/decoder/decoder.h"

#include <algorithm>
#include <numeric>

#include "base/check.h"

namespace ringside {
namespace {

constexpr auto kLogitRows = static_cast<int64_t>(kMaxDeferredRows);  // rows of logits on the device at once

std::vector<const Weight*> Pointers(const std::vector<Weight>& weights) {
  std::vector<const Weight*> out;
  for (const Weight& weight : weights) out.push_back(&weight);
  return out;
}

/// Factors of the rows' scores; empty if all are 1.
std::vector<float> QueryScales(const ModelSpec& spec, const MicroBatch& batch) {
  if (spec.position_scale == 0) return {};
  std::vector<float> scales(static_cast<size_t>(batch.rows), 1.0f);
  for (const AttentionSegment& segment : batch.segments) {
    for (int64_t r = 0; r < segment.rows; ++r) {
      scales[static_cast<size_t>(segment.first_row + r)] = spec.ScoreScaleAt(segment.position + r);
    }
  }
  return scales;
}

/// True if the choice is a plain argmax, independent of all other settings.
bool IsPlainArgmax(const RowSamplingParams& choice) {
  return choice.greedy() && choice.logprobs < 0 && choice.banned.empty() && choice.allowed.empty() &&
         choice.bias.empty() && choice.repeated.empty() && choice.counted.empty();
}

}  // namespace

Decoder::Decoder(Backend& backend, const ModelSpec& spec, const Shard& shard, std::vector<int64_t> borders,
                 Weights weights)
    : backend_(backend),
      whole_(spec),
      own_(shard.Of(spec)),
      shard_(shard),
      borders_(std::move(borders)),
      weights_(std::move(weights)),
      stream_scratch_{.columns = spec.hidden},
      normed_{.columns = spec.hidden, .dtype = backend.activation_dtype()},
      mlp_normed_{.columns = spec.parallel && !spec.shared_norm ? spec.hidden : 0, .dtype = backend.activation_dtype()},
      qkv_{.columns = std::max(
               own_.Widest(&ModelSpec::gate_columns) + own_.Widest(&ModelSpec::qkv_columns) + spec.latent.query_rank,
               own_.recurrent_columns()),
           .dtype = backend.activation_dtype()},
      attended_{.columns =
                    std::max({own_.Widest(&ModelSpec::attended_columns), own_.recurrent_outputs(), spec.expert_inputs}),
                .dtype = backend.activation_dtype()},
      latent_{
          .queries = {.columns = spec.latent.rank > 0 ? own_.query_columns() : 0, .dtype = backend.activation_dtype()},
          .expanded = {.columns = spec.latent.rank > 0 ? own_.value_columns() : 0,
                       .dtype = backend.activation_dtype()}},
      mixed_{.columns = own_.recurrence.mixed_columns()},
      mlp_in_{.columns = own_.MlpInColumns(own_.widest_dense()), .dtype = backend.activation_dtype()},
      mlp_mid_{.columns = spec.gated ? own_.widest_dense() : 0, .dtype = backend.activation_dtype()},
      experts_{.columns = spec.separate_experts ? spec.hidden : spec.expert_inputs},
      layer_inputs_{.all = {.columns = spec.layers * spec.layer_inputs},
                    .projected = {.columns = spec.layers * spec.layer_inputs},
                    .gate = {.columns = spec.layer_inputs}},
      streams_{.streams = {.columns = spec.streams.count * spec.hidden},
               .predicted = {.columns = spec.streams.count * spec.hidden},
               .weights = {.columns = spec.streams.count},
               .factors = {.columns = spec.streams.count * spec.streams.count},
               .laurel_low = {.columns = spec.streams.laurel_rank},
               .laurel = {.columns = spec.streams.count > 0 ? spec.hidden : 0}},
      router_{.columns = spec.experts + (spec.shared_ffn > 0 ? 1 : 0)},
      part_{.columns = shard.whole() && !spec.norm_after ? 0 : spec.hidden},
      wanted_{.columns = spec.hidden},
      embedded_{.in = {.columns = spec.embedded},
                .out = {.columns = spec.embedded, .dtype = backend.activation_dtype()}},
      images_(backend, spec.image_layers),
      hidden_{.columns = spec.embedded},
      logits_{.columns = spec.vocab},
      encoder_{.keys = {.columns = 2 * spec.kv_heads * spec.head_dim, .dtype = backend.activation_dtype()},
               .cache = {}},
      draft_(backend, own_, weights_) {}

Status Decoder::Reserve(int64_t rows) {
  const int64_t together = own_.recurrent() ? rows : LargestMicroBatch(rows, shard_.stages, backend_.saturating_rows());
  for (Scratch* scratch : {&stream_scratch_,
                           &normed_,
                           &mlp_normed_,
                           &qkv_,
                           &attended_,
                           &latent_.queries,
                           &latent_.expanded,
                           &mixed_,
                           &mlp_in_,
                           &mlp_mid_,
                           &experts_,
                           &layer_inputs_.all,
                           &layer_inputs_.projected,
                           &layer_inputs_.gate,
                           &streams_.streams,
                           &streams_.predicted,
                           &streams_.weights,
                           &streams_.factors,
                           &streams_.laurel_low,
                           &streams_.laurel,
                           &router_,
                           &part_,
                           &low_rank_,
                           &embedded_.in}) {
    RETURN_IF_ERROR(scratch->Rows(backend_, together).status());
  }
  RETURN_IF_ERROR(images_.Reserve(together, own_.hidden));
  RETURN_IF_ERROR(draft_.Reserve(together));
  if (own_.encoder_layers > 0) {
    RETURN_IF_ERROR(encoder_.keys.Rows(backend_, rows).status());
    RETURN_IF_ERROR(EncoderCache(rows).status());
  }
  if (!shard_.chooses()) return Status::Ok();
  for (Scratch* scratch : {&stream_scratch_, &normed_, &wanted_, &embedded_.out, &hidden_}) {
    RETURN_IF_ERROR(scratch->Rows(backend_, rows).status());
  }
  return logits_.Rows(backend_, std::min(rows, kLogitRows)).status();
}

void Decoder::Norm(Tensor x, const DeviceVector& weight, const DeviceVector& bias, Tensor y) const {
  if (own_.norm == NormKind::kRms)
    backend_.RmsNorm(x, weight.data(), own_.norm_eps, y);
  else
    backend_.LayerNorm(x, weight.data(), bias.data(), own_.norm_eps, y);
}

void Decoder::PostNorm(Tensor x, const DeviceVector& weight) const {
  const float eps = own_.post_norm_eps != 0 ? own_.post_norm_eps : own_.norm_eps;
  if (own_.norm == NormKind::kRms)
    backend_.RmsNorm(x, weight.data(), eps, x);
  else
    backend_.LayerNorm(x, weight.data(), none_.data(), eps, x);
}

Tensor Decoder::NormedStream(const DeviceVector& weight, const DeviceVector& bias, Scratch& scratch) {
  if (weight.data() == nullptr) return stream_;
  const Tensor normed = scratch.Rows(backend_, stream_.rows).value();
  Norm(stream_, weight, bias, normed);
  return normed;
}

void Decoder::AddToStream(Tensor x, const StreamPart& part) {
  const Weight* weights[] = {&part.weight};
  const float* bias = part.bias.data();
  if (shard_.whole() && part.norm.data() == nullptr) {
    backend_.Linear({.x = x, .weights = weights, .bias = bias, .y = stream_, .accumulate = true});
    return AddAdapted(x, part.layer, part.adapted, stream_);
  }
  const Tensor own = part_.Rows(backend_, x.rows).value();
  backend_.Linear({.x = x, .weights = weights, .bias = bias, .y = own});
  AddAdapted(x, part.layer, part.adapted, own);
  AddSum(own, part.norm);
}

int64_t Decoder::weight_bytes() const {
  int64_t bytes = weights_.bytes;
  for (const AdapterWeights& adapter : adapters_) bytes += adapter.bytes;
  return bytes;
}

void Decoder::AddAdapter(AdapterWeights adapter) { adapters_.push_back(std::move(adapter)); }

Status Decoder::PackAdapters() {
  packed_adapters_.clear();
  packed_adapters_.resize(static_cast<size_t>(own_.layers));
  for (size_t layer = 0; layer < packed_adapters_.size(); ++layer) {
    for (size_t i = 0; i < kAdaptedParts; ++i) {
      PackedPart& part = packed_adapters_[layer][i];
      for (const AdapterWeights& adapter : adapters_) {
        int64_t ranks = 0;
        for (const LowRank& matrix : part.matrices.emplace_back(adapter.layers[layer][i])) ranks += matrix.a.rows;
        part.ranks = std::max(part.ranks, ranks);
      }
      if (part.ranks == 0) continue;
      ASSIGN_OR_RETURN(part.placed, backend_.PackLowRank(part.matrices));
      low_rank_.columns = std::max(low_rank_.columns, part.ranks);
    }
  }
  return Status::Ok();
}

void Decoder::AddAdapted(Tensor x, int64_t layer, AdaptedPart part, Tensor y) {
  if (adapters_of_rows_.empty() || layer < 0) return;
  const PackedPart& placed = packed_adapters_.at(static_cast<size_t>(layer))[static_cast<size_t>(part)];
  if (placed.ranks == 0) return;
  backend_.AddLowRank({.x = x,
                       .adapters = adapters_of_rows_,
                       .matrices = placed.matrices,
                       .packed = placed.placed.data(),
                       .low = low_rank_.Rows(backend_, x.rows).value().Columns(0, placed.ranks),
                       .y = y,
                       .step = attention_step_});
}

void Decoder::Attend(Tensor x, const LayerWeights& w, const LayerStep& step) {
  const auto [kv_heads, head_dim] = own_.KvSizes(step.layer);
  const bool owns = own_.OwnsKeys(step.layer);
  const int64_t heads = own_.Heads(step.layer), queries = heads * head_dim, keys = owns ? kv_heads * head_dim : 0,
                columns = queries + 2 * keys;
  const int64_t gates = own_.gate_columns(step.layer);
  const Tensor projected = qkv_.Rows(backend_, x.rows, gates + columns).value();
  AttentionArgs args = step.attention;
  args.qkv = projected.Columns(gates, columns);
  args.out = attended_.Rows(backend_, x.rows, queries).value();
  args.scores.sinks = w.sinks.data();
  args.query_weights = w.query_weights.data();
  std::vector<const Weight*> weights = Pointers(w.qkv);
  if (own_.separate_gate) weights.insert(weights.begin(), &w.query_gate);
  if (own_.Layer(step.layer).keys_are_values) weights.push_back(weights.back());
  backend_.Linear({.x = x,
                   .weights = weights,
                   .bias = w.qkv_bias.data(),
                   .y = projected,
                   .rounded_bias = w.qkv_bias.rounded.data.data()});
  AddAdapted(x, step.layer, AdaptedPart::kQkv, projected);
  if (w.query_norm.data() != nullptr) {
    NormQueriesAndKeys(args.qkv.Columns(0, queries), args.qkv.Columns(queries, keys), w, step.layer);
  }
  if (own_.value_norm && owns) {
    backend_.RmsNormHeads(args.qkv.Columns(queries + keys, keys), kv_heads, weights_.ones.data(), own_.norm_eps);
  }
  backend_.Attention(args);
  const GateKind gate = own_.softplus_gate ? GateKind::kSoftplus : GateKind::kSigmoid;
  if (own_.query_gate) backend_.Gate(projected.Columns(0, gates), gate, args.out);
  if (own_.factors.attended != 1) backend_.Scale(args.out, own_.factors.attended);
  AddToStream(args.out,
              {w.attention_out, w.attention_out_bias, w.attention_post_norm, step.layer, AdaptedPart::kAttentionOut});
}

void Decoder::AttendToInput(const LayerWeights& w, const LayerStep& step) {
  const Tensor x = NormedStream(w.cross_norm, none_, normed_);
  const int64_t columns = own_.heads * own_.head_dim;
  AttentionArgs args = step.attention;
  args.qkv = qkv_.Rows(backend_, x.rows).value().Columns(0, columns);
  args.out = attended_.Rows(backend_, x.rows).value();
  args.scores = {.scale = own_.score_scale()};
  args.seen = VisibleKeys::kPinned;
  const Weight* query[] = {&w.cross_query};
  backend_.Linear({.x = x, .weights = query, .y = args.qkv});
  backend_.Attention(args);
  AddToStream(args.out, {w.cross_out, none_, none_, step.layer, AdaptedPart::kAttentionOut});
}

Tensor Decoder::MlpHidden(Tensor x, const LayerWeights& w, int64_t layer) {
  const int64_t width = w.mlp_out.cols;
  const Tensor mlp_in = mlp_in_.Rows(backend_, x.rows, own_.MlpInColumns(width)).value();
  backend_.Linear({.x = x,
                   .weights = Pointers(w.mlp_in),
                   .bias = w.mlp_in_bias.data(),
                   .y = mlp_in,
                   .rounded_bias = w.mlp_in_bias.rounded.data.data()});
  AddAdapted(x, layer, AdaptedPart::kMlpIn, mlp_in);
  if (own_.Layer(layer).sparse) backend_.Sparsify(mlp_in.Columns(0, width), own_.Layer(layer).sparsity);
  if (own_.factors.gate != 1) backend_.Scale(mlp_in.Columns(0, width), own_.factors.gate);
  Tensor mlp_mid = mlp_in;
  if (own_.gated) {
    mlp_mid = mlp_mid_.Rows(backend_, x.rows, width).value();
    backend_.MultiplyActivated(mlp_in, own_.activation, mlp_mid);
  } else if (own_.activation == Activation::kXielu) {
    backend_.Xielu(mlp_mid, w.xielu);
  } else {
    backend_.Activate(mlp_mid, own_.activation);
  }
  if (own_.factors.mlp != 1) backend_.Scale(mlp_mid, own_.factors.mlp);
  return mlp_mid;
}

void Decoder::Mlp(Tensor x, const LayerWeights& w, int64_t layer) {
  AddToStream(MlpHidden(x, w, layer), {w.mlp_out, w.mlp_out_bias, w.mlp_post_norm, layer, AdaptedPart::kMlpOut});
}

// The block of every family: x += Attention(Norm(x)); x += Mlp(Norm(x)) (Vaswani et al. 2017, pre-norm), with optional
// output norms; x = Norm(x + Attention(x)) (post-norm); or x += Attention(Norm(x)) + Mlp(Norm(x)) (GPT-J, Wang and
// Komatsuzaki 2021).
void Decoder::Block(const LayerWeights& w, const LayerStep& step) {
  const bool sums = own_.norm_sums;
  const bool mixes = step.mixer != Mixer::kNone, has_mlp = !w.mlp_in.empty() || !w.expert_list.empty();
  const Tensor normed = sums || !mixes ? stream_ : NormedStream(w.attention_norm, w.attention_norm_bias, normed_);
  Tensor input = normed;  // input of the MLP
  if (own_.parallel && !own_.shared_norm) input = NormedStream(w.mlp_norm, w.mlp_norm_bias, mlp_normed_);
  if (IsRecurrent(step.mixer)) Recur(normed, w, step);
  if (step.attends && own_.latent.rank > 0)
    AttendLatent(normed, w, step);
  else if (step.attends)
    Attend(normed, w, step);
  if (sums) Norm(stream_, w.attention_norm, w.attention_norm_bias, stream_);
  if (w.cross_query.rows > 0) AttendToInput(w, step);
  if (has_mlp && !own_.parallel && !sums) input = NormedStream(w.mlp_norm, w.mlp_norm_bias, normed_);
  const bool mixture = !w.expert_list.empty();
  if (mixture && own_.separate_experts) {
    MlpAndExperts(w, step.layer);
  } else if (mixture && (own_.norm_after || !shard_.whole())) {
    SummedExperts(input, w, step.layer);
  } else {
    if (!w.mlp_in.empty()) Mlp(input, w, step.layer);
    if (mixture) Experts(input, RouterLogits(input, w), w, stream_, true);
  }
  if (sums) Norm(stream_, w.mlp_norm, w.mlp_norm_bias, stream_);
  if (own_.layer_inputs > 0) backend_.Add(LayerInput(stream_, w, step.layer), stream_);
  if (own_.layer_scalar) backend_.Scale(stream_, w.scalar);
}

void Decoder::Run(const StepPlan& plan, const KvShape& shape, std::span<const AttentionSegment> segments) {
  wanted_rows_ = plan.wanted_rows;
  for (const StepPlan::EncoderInput& input : plan.inputs) Encode(input, shape);
  if (plan.rows() == 0) return;
  // The last stage sampled the tokens that the embedding needs.
  if (const size_t awaited = shard_.stages > 1 ? plan.awaited_tokens() : 0; awaited > 0) {
    if (shard_.chooses()) backend_.SendSampledTokens(awaited);
    if (shard_.embeds()) backend_.ReceiveSampledTokens(awaited);
  }
  std::vector<int64_t> pairs;
  for (const Rotation& rotation : own_.rotations) pairs.push_back(std::ssize(rotation.inverse_frequencies));
  const std::vector<MicroBatch> batches =
      SplitIntoMicroBatches(plan, segments, pairs, shard_.stages, backend_.saturating_rows(), own_.recurrent());
  int64_t most = 0;
  for (const MicroBatch& batch : batches) most = std::max(most, batch.rows);
  const Tensor all = stream_scratch_.Rows(backend_, shard_.chooses() ? plan.rows() : most).value();
  for (const MicroBatch& batch : batches) {
    stream_ = all.Rows(shard_.chooses() ? batch.first_row : 0, batch.rows);
    adapters_of_rows_ = plan.adapters;
    if (!adapters_of_rows_.empty()) {
      adapters_of_rows_ =
          adapters_of_rows_.subspan(static_cast<size_t>(batch.first_row), static_cast<size_t>(batch.rows));
    }
    if (shard_.embeds())
      Embed(plan, batch);
    else
      backend_.ReceiveRows(stream_);
    if (draft_.any()) draft_.SetEmbeddings(stream_);
    RunLayers(batch, shape);
    if (draft_.any()) {
      draft_.SetStates(stream_, batch.segments, plan.rows_before);
      draft_.StoreKeys(draft_.Stream(), StepOf(own_.layers, batch, shape, {}).attention);
    }
    if (!shard_.chooses()) backend_.SendRows(stream_);
  }
  stream_ = all;
  if (!plan.hidden_rows.empty() && shard_.chooses()) CopyHiddenStates(plan.hidden_rows);
}

Tensor Decoder::FinalRows(std::span<const int64_t> rows, Scratch& scratch, Scratch& projected) {
  const auto count = static_cast<int64_t>(rows.size());
  // Ascending and contiguous, as in every step that only decodes: no copy.
  const bool contiguous = rows.back() - rows.front() + 1 == count;
  Tensor final = contiguous ? stream_.Rows(rows.front(), count) : wanted_.Rows(backend_, count).value();
  if (!contiguous) backend_.GatherRows(stream_, rows, final);
  if (own_.final_norm) {
    const Tensor normed = scratch.Rows(backend_, final.rows).value();
    Norm(final, weights_.final_norm, weights_.final_norm_bias, normed);
    final = normed;
  }
  if (own_.embedded == 0) return final;
  const Weight* weights[] = {&weights_.project_out};
  const Tensor out = projected.Rows(backend_, final.rows).value();
  backend_.Linear({.x = final, .weights = weights, .y = out});
  return out;
}

void Decoder::CopyHiddenStates(std::span<const int64_t> rows) {
  const Tensor states = FinalRows(rows, wanted_, hidden_);
  hidden_states_.resize(static_cast<size_t>(states.rows * states.cols));
  backend_.CopyToHost(hidden_states_.data(), states.data, hidden_states_.size() * sizeof(float));
  backend_.Synchronize();
}

Result<KvShape> Decoder::EncoderCache(int64_t rows) {
  const KvShape shape{.layers = 1,
                      .kv_heads = own_.kv_heads,
                      .head_dim = own_.head_dim,
                      .dtype = backend_.activation_dtype(),
                      .pinned_tiles = KvShape::PinnedTiles(rows),
                      .ring_tiles = 1};
  const auto bytes = static_cast<size_t>(shape.slab_bytes());
  if (encoder_.cache.bytes() < bytes) {
    encoder_.cache = Buffer();
    ASSIGN_OR_RETURN(encoder_.cache, backend_.Allocate(bytes));
  }
  return shape;
}

void Decoder::Encode(const StepPlan::EncoderInput& input, const KvShape& shape) {
  const auto rows = static_cast<int64_t>(input.ids.size());
  const EncoderWeights& encoder = weights_.encoder;
  const std::vector<int64_t> first_live(input.ids.size(), rows);  // nothing follows the input
  const KvShape own = EncoderCache(rows).value();
  AttentionSegment segment{
      .rows = rows, .pinned = rows, .first_live = first_live.data(), .slab = encoder_.cache.data()};
  const ScoreTraits scores{.scale = own_.score_scale(), .biases = encoder.biases.data(), .bias_reach = own_.bias_reach};
  const LayerStep step{.attention = {.shape = own,
                                     .heads = own_.heads,
                                     .scores = scores,
                                     .seen = VisibleKeys::kPinned,
                                     .segments = {&segment, 1},
                                     .step = ++attention_step_}};
  stream_ = stream_scratch_.Rows(backend_, rows).value();
  adapters_of_rows_ = {};
  backend_.Embed(weights_.embedding, input.ids, own_.embedding_scale, stream_);
  for (const LayerWeights& layer : encoder.layers) Block(layer, step);

  const Tensor encoded = NormedStream(encoder.final_norm, none_, normed_);
  segment.slab = input.slab;
  AttentionArgs attention{.qkv = encoder_.keys.Rows(backend_, rows).value(),
                          .shape = shape,
                          .segments = {&segment, 1},
                          .step = ++attention_step_};
  for (const LayerWeights& layer : weights_.layers) {
    backend_.Linear({.x = encoded, .weights = Pointers(layer.cross_keys), .y = attention.qkv});
    backend_.Attention(attention);
    ++attention.layer;
  }
}

void Decoder::Embed(const StepPlan& plan, const MicroBatch& batch) {
  const auto first = static_cast<size_t>(batch.first_row), rows = static_cast<size_t>(batch.rows);
  const bool projected = own_.embedded != 0;
  const Tensor embedded = projected ? embedded_.in.Rows(backend_, batch.rows).value() : stream_;
  backend_.Embed(weights_.embedding, std::span(plan.ids).subspan(first, rows), own_.embedding_scale, embedded);
  for (const StepPlan::VirtualRows& prompt : plan.virtual_rows) EmbedVirtual(prompt, batch, embedded);
  images_.Embed(plan.image_rows, batch, normed_.Rows(backend_, batch.rows, embedded.cols).value(), embedded);
  if (projected) {
    const Weight* weights[] = {&weights_.project_in};
    backend_.Linear({.x = embedded, .weights = weights, .y = stream_});
  }
  if (own_.learned_positions) {
    backend_.AddPositions(weights_.positions, std::span(plan.positions).subspan(first, rows), stream_);
  }
  if (own_.layer_inputs > 0) EmbedLayerInputs(std::span(plan.ids).subspan(first, rows));
  if (own_.embedding_norm) Norm(stream_, weights_.embedding_norm, weights_.embedding_norm_bias, stream_);
}

void Decoder::EmbedVirtual(const StepPlan::VirtualRows& rows, const MicroBatch& batch, Tensor embedded) {
  CHECK_LE(static_cast<size_t>(rows.adapter), adapters_.size());
  const Weight& prompt = adapters_[static_cast<size_t>(rows.adapter - 1)].soft_prompt;
  const int64_t begin = std::max(rows.first_row, batch.first_row),
                end = std::min(rows.first_row + rows.rows, batch.first_row + batch.rows);
  if (begin >= end) return;
  std::vector<int32_t> ids(static_cast<size_t>(end - begin));
  std::iota(ids.begin(), ids.end(), static_cast<int32_t>(rows.first + begin - rows.first_row));
  CHECK_LT(ids.back(), prompt.rows);
  backend_.Embed(prompt, ids, 1, embedded.Rows(begin - batch.first_row, end - begin));
}

Decoder::LayerStep Decoder::StepOf(int64_t layer, const MicroBatch& batch, const KvShape& shape,
                                   std::span<const float> query_scales) const {
  const LayerTraits traits = own_.Layer(layer);
  const bool rotates = own_.rope_pairs != RopePairs::kNone && traits.rotation >= 0;
  LayerStep step{
      .attention = {.shape = shape,
                    .heads = own_.Heads(layer),
                    .stored = !own_.OwnsKeys(layer),
                    .rotary = own_.rotary,
                    .pairs = rotates ? own_.rope_pairs : RopePairs::kNone,
                    .scores = {.scale = own_.score_scale(),
                               .soft_cap = own_.score_cap,
                               .slopes = weights_.slopes.data(),
                               .biases = weights_.biases.data(),
                               .bias_reach = own_.bias_reach,
                               .window = traits.window,
                               .chunked = traits.chunked},
                    .seen = own_.encoder_layers > 0 ? VisibleKeys::kRing : VisibleKeys::kBefore,
                    .segments = batch.segments,
                    .step = attention_step_},
      .recurrence = {.sizes = own_.recurrence, .shape = shape, .segments = batch.segments, .step = attention_step_},
      .layer = layer,
      .mixer = traits.mixer,
      .attends = own_.IsAttention(layer)};
  if (step.attends) step.attention.layer = own_.KvIndex(layer);
  if (!traits.plain_scores && !query_scales.empty()) step.attention.query_scales = query_scales.data();
  if (rotates) {
    const auto rotation = static_cast<size_t>(traits.rotation);
    step.attention.rotary = 2 * std::ssize(own_.rotations[rotation].inverse_frequencies);
    step.attention.angles = batch.angles[rotation];
  }
  return step;
}

void Decoder::RunLayers(const MicroBatch& batch, const KvShape& shape) {
  const std::vector<float> query_scales = QueryScales(own_, batch);
  ++attention_step_;
  int64_t recurrent = 0;  // layers so far
  if (own_.streams.count > 0) SplitStreams();
  for (int64_t layer = 0; layer < own_.layers; ++layer) {
    LayerStep step = StepOf(layer, batch, shape, query_scales);
    step.recurrence.layer = recurrent;
    const LayerWeights& weights = weights_.layers[static_cast<size_t>(layer)];
    if (own_.streams.count > 0)
      BlockOfStreams(weights, step);
    else
      Block(weights, step);
    images_.Add(layer, stream_);
    recurrent += IsRecurrent(step.mixer) ? 1 : 0;
  }
  if (own_.streams.count > 0) JoinStreams();
}

// A few rows at a time: the logits of a whole prompt would not fit.
template <class Take>
void Decoder::Logits(bool gathered, const Take& take) {
  const auto rows = static_cast<int64_t>(wanted_rows_.size());
  if (rows == 0 || !shard_.chooses()) return;
  const Tensor normed = FinalRows(wanted_rows_, normed_, embedded_.out);
  const Weight* head[] = {&weights_.head()};
  for (int64_t first = 0; first < rows; first += kLogitRows) {
    const int64_t count = std::min(kLogitRows, rows - first);
    const Tensor out = logits_.Rows(backend_, count).value();
    const Tensor own = out.Columns(shard_.vocab.begin, shard_.vocab.size());
    backend_.Linear({.x = normed.Rows(first, count), .weights = head, .bias = weights_.head_bias.data(), .y = own});
    if (own_.logit_cap > 0) backend_.SoftCap(own, own_.logit_cap);
    if (gathered && !shard_.whole()) backend_.AllGatherColumns(out, borders_);
    take(first, out);
  }
}

void Decoder::CopyLogits(std::span<float> logits) {
  Logits(true, [&](int64_t first, Tensor rows) {
    if (logits.empty()) return;
    backend_.CopyToHost(logits.data() + first * rows.cols, rows.data,
                        static_cast<size_t>(rows.rows * rows.cols) * sizeof(float));
  });
  backend_.Synchronize();
}

void Decoder::Choose(std::span<const RowSamplingParams> choices) {
  CHECK_EQ(choices.size(), wanted_rows_.size());
  Begun& begun = begun_.emplace_back();
  begun.chosen.resize(choices.size());
  const bool highest = !shard_.whole() && std::ranges::all_of(choices, IsPlainArgmax);
  Logits(!highest, [&](int64_t first, Tensor rows) {
    const auto begin = static_cast<size_t>(first), count = static_cast<size_t>(rows.rows);
    const std::span<SampledToken> chosen = std::span(begun.chosen).subspan(begin, count);
    if (!highest) return backend_.SampleTokens(rows, choices.subspan(begin, count), chosen);
    backend_.SampleGreedy(rows.Columns(shard_.vocab.begin, shard_.vocab.size()), shard_.vocab.begin, chosen);
  });
  begun.submission = backend_.Submit();
}

void Decoder::KeepLogits() {
  CHECK_LE(wanted_rows_.size(), kMaxDeferredRows);
  kept_ = {};
  Logits(true, [&](int64_t, Tensor rows) { kept_ = rows; });
  backend_.Flush();
}

void Decoder::ChooseKept(std::span<const RowSamplingParams> choices, std::span<const size_t> rows) {
  Begun& begun = begun_.emplace_back();
  begun.chosen.resize(choices.size());
  const auto row_of = [&](size_t choice) { return rows.empty() ? choice : rows[choice]; };
  for (size_t first = 0, end = 0; shard_.chooses() && first < choices.size(); first = end) {
    const size_t row = row_of(first);
    for (end = first + 1; end < choices.size() && row_of(end) == row + end - first;) ++end;
    const size_t count = end - first;
    backend_.SampleTokens(kept_.Rows(static_cast<int64_t>(row), static_cast<int64_t>(count)),
                          choices.subspan(first, count), std::span(begun.chosen).subspan(first, count));
  }
  begun.submission = backend_.Submit();
}

std::vector<SampledToken> Decoder::Finish() {
  CHECK(!begun_.empty());
  backend_.WaitFor(begun_.front().submission);
  std::vector<SampledToken> chosen = std::move(begun_.front().chosen);
  begun_.pop_front();
  return chosen;
}

}  // namespace ringside
