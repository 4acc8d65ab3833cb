#include "engine/model/decoder.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace ringside {
namespace {

constexpr auto kLogitRows = static_cast<int64_t>(kMostUnchosenRows);  // of logits on the device at a time

std::vector<const Weight*> Pointers(const std::vector<Weight>& weights) {
  std::vector<const Weight*> out;
  for (const Weight& weight : weights) out.push_back(&weight);
  return out;
}

}  // namespace

Decoder::Decoder(Backend& backend, const ModelSpec& spec, const Shard& shard, std::vector<int64_t> borders,
                 Weights weights)
    : backend_(backend),
      own_(shard.Of(spec)),
      shard_(shard),
      borders_(std::move(borders)),
      weights_(std::move(weights)),
      stream_scratch_{.columns = spec.hidden},
      normed_{.columns = spec.hidden, .dtype = backend.activation_dtype()},
      qkv_{.columns = own_.qkv_columns(), .dtype = backend.activation_dtype()},
      attended_{.columns = own_.heads * own_.head_dim, .dtype = backend.activation_dtype()},
      mlp_in_{.columns = own_.mlp_in_columns(), .dtype = backend.activation_dtype()},
      mlp_mid_{.columns = spec.mlp == MlpKind::kSwiGlu ? own_.ffn : 0, .dtype = backend.activation_dtype()},
      part_{.columns = shard.whole() ? 0 : spec.hidden},
      wanted_{.columns = spec.hidden},
      logits_{.columns = spec.vocab} {}

Result<Tensor> Decoder::Scratch::Rows(Backend& backend, int64_t rows) {
  const auto bytes = static_cast<size_t>(StorageBytes(dtype, rows * columns));
  if (memory.bytes() < bytes) {
    memory = Buffer();  // give back first: both at once might not fit
    ASSIGN_OR_RETURN(memory, backend.Allocate(bytes));
  }
  return Tensor{dtype, memory.data(), rows, columns, columns};
}

Status Decoder::Reserve(int64_t rows) {
  const int64_t together = LargestMicroBatch(rows, shard_.stages, backend_.busy_rows());
  for (Scratch* scratch : {&stream_scratch_, &normed_, &qkv_, &attended_, &mlp_in_, &mlp_mid_, &part_}) {
    RETURN_IF_ERROR(scratch->Rows(backend_, together).status());
  }
  if (!shard_.chooses()) return Status::Ok();
  for (Scratch* scratch : {&stream_scratch_, &normed_, &wanted_}) {
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

void Decoder::AddToStream(Tensor x, const Weight& weight, const DeviceVector& bias) {
  const Weight* weights[] = {&weight};
  if (shard_.whole()) {
    return backend_.Linear({.x = x, .weights = weights, .bias = bias.data(), .y = stream_, .accumulate = true});
  }
  const Tensor part = part_.Rows(backend_, x.rows).value();
  backend_.Linear({.x = x, .weights = weights, .bias = bias.data(), .y = part});
  backend_.AddAllRanks(part, stream_);
}

void Decoder::Attend(const LayerWeights& w, const AttentionArgs& step) {
  const int64_t rows = stream_.rows, queries = own_.heads * own_.head_dim, keys = own_.kv_heads * own_.head_dim;
  const Tensor normed = normed_.Rows(backend_, rows).value();
  AttentionArgs args = step;
  args.qkv = qkv_.Rows(backend_, rows).value();
  args.out = attended_.Rows(backend_, rows).value();
  Norm(stream_, w.attention_norm, w.attention_norm_bias, normed);
  backend_.Linear({.x = normed,
                   .weights = Pointers(w.qkv),
                   .bias = w.qkv_bias.data(),
                   .y = args.qkv,
                   .rounded_bias = w.qkv_bias.rounded.data.data()});
  if (own_.qk_norm) {
    backend_.RmsNormHeads(args.qkv.Columns(0, queries), own_.heads, w.query_norm.data(), own_.norm_eps);
    backend_.RmsNormHeads(args.qkv.Columns(queries, keys), own_.kv_heads, w.key_norm.data(), own_.norm_eps);
  }
  backend_.Attention(args);
  AddToStream(args.out, w.attention_out, w.attention_out_bias);
}

void Decoder::Mlp(const LayerWeights& w) {
  const Tensor normed = normed_.Rows(backend_, stream_.rows).value();
  const Tensor mlp_in = mlp_in_.Rows(backend_, stream_.rows).value();
  Norm(stream_, w.mlp_norm, w.mlp_norm_bias, normed);
  backend_.Linear({.x = normed,
                   .weights = Pointers(w.mlp_in),
                   .bias = w.mlp_in_bias.data(),
                   .y = mlp_in,
                   .rounded_bias = w.mlp_in_bias.rounded.data.data()});
  Tensor mlp_mid = mlp_in;
  if (own_.mlp == MlpKind::kSwiGlu) {
    mlp_mid = mlp_mid_.Rows(backend_, stream_.rows).value();
    backend_.SiluMultiply(mlp_in, mlp_mid);
  } else {
    backend_.Gelu(mlp_mid, own_.mlp == MlpKind::kGeluTanh);
  }
  AddToStream(mlp_mid, w.mlp_out, w.mlp_out_bias);
}

void Decoder::Run(const StepPlan& plan, const KvShape& shape, std::span<const AttentionSegment> segments) {
  wanted_rows_ = plan.wanted_rows;
  // Tokens that the embedding awaits are the last stage's.
  if (const size_t awaited = plan.awaited_tokens(); awaited > 0 && shard_.stages > 1) {
    if (shard_.chooses()) backend_.SendChosen(awaited);
    if (shard_.embeds()) backend_.ReceiveChosen(awaited);
  }
  const std::vector<MicroBatch> batches = CutStep(plan, segments, own_.rotary / 2, shard_.stages, backend_.busy_rows());
  int64_t most = 0;
  for (const MicroBatch& batch : batches) most = std::max(most, batch.rows);
  const Tensor all = stream_scratch_.Rows(backend_, shard_.chooses() ? plan.rows() : most).value();
  for (const MicroBatch& batch : batches) {
    stream_ = all.Rows(shard_.chooses() ? batch.first_row : 0, batch.rows);
    const auto first = static_cast<size_t>(batch.first_row), rows = static_cast<size_t>(batch.rows);
    if (shard_.embeds()) {
      backend_.Embed(weights_.embedding, std::span(plan.ids).subspan(first, rows), stream_);
      if (own_.learned_positions) {
        backend_.AddPositions(weights_.positions, std::span(plan.positions).subspan(first, rows), stream_);
      }
    } else {
      backend_.ReceiveRows(stream_);
    }
    RunLayers(batch, shape);
    if (!shard_.chooses()) backend_.SendRows(stream_);
  }
  stream_ = all;
}

// x += Attention(Norm(x)); x += Mlp(Norm(x)): every family's block (Vaswani et al. 2017, pre-norm).
void Decoder::RunLayers(const MicroBatch& batch, const KvShape& shape) {
  AttentionArgs attention{.shape = shape,
                          .heads = own_.heads,
                          .rotary = own_.rotary,
                          .pairs = own_.rope_pairs,
                          .angles = batch.angles,
                          .scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(own_.head_dim))),
                          .segments = batch.segments,
                          .step = ++attention_step_};
  for (const LayerWeights& layer : weights_.layers) {
    Attend(layer, attention);
    Mlp(layer);
    ++attention.layer;
  }
}

// A few rows at a time: a whole prompt's logits would not fit.
template <class Take>
void Decoder::Logits(const Take& take) {
  const auto rows = static_cast<int64_t>(wanted_rows_.size());
  if (rows == 0 || !shard_.chooses()) return;
  const int64_t begin = wanted_rows_.front();
  Tensor wanted;
  if (wanted_rows_.back() - begin + 1 == rows) {  // ascending: all together, as in every step that only decodes
    wanted = stream_.Rows(begin, rows);
  } else {
    wanted = wanted_.Rows(backend_, rows).value();
    backend_.GatherRows(stream_, wanted_rows_, wanted);
  }
  const Tensor normed = normed_.Rows(backend_, rows).value();
  Norm(wanted, weights_.final_norm, weights_.final_norm_bias, normed);
  const Weight* head[] = {&weights_.head()};
  for (int64_t first = 0; first < rows; first += kLogitRows) {
    const int64_t count = std::min(kLogitRows, rows - first);
    const Tensor out = logits_.Rows(backend_, count).value();
    backend_.Linear(
        {.x = normed.Rows(first, count), .weights = head, .y = out.Columns(shard_.vocab.begin, shard_.vocab.size())});
    if (!shard_.whole()) backend_.GatherColumns(out, borders_);
    take(first, out);
  }
}

void Decoder::CopyLogits(std::span<float> logits) {
  Logits([&](int64_t first, Tensor rows) {
    if (logits.empty()) return;
    backend_.CopyToHost(logits.data() + first * rows.cols, rows.data,
                        static_cast<size_t>(rows.rows * rows.cols) * sizeof(float));
  });
  backend_.Synchronize();
}

void Decoder::Choose(std::span<const TokenChoice> choices) {
  CHECK_EQ(choices.size(), wanted_rows_.size());
  Begun& begun = begun_.emplace_back();
  begun.chosen.resize(choices.size());
  Logits([&](int64_t first, Tensor rows) {
    const auto begin = static_cast<size_t>(first), count = static_cast<size_t>(rows.rows);
    backend_.ChooseTokens(rows, choices.subspan(begin, count), std::span(begun.chosen).subspan(begin, count));
  });
  begun.submission = backend_.Submit();
}

void Decoder::KeepLogits() {
  CHECK_LE(wanted_rows_.size(), kMostUnchosenRows);
  kept_ = {};
  Logits([&](int64_t, Tensor rows) { kept_ = rows; });
  backend_.Flush();
}

void Decoder::ChooseKept(std::span<const TokenChoice> choices) {
  Begun& begun = begun_.emplace_back();
  begun.chosen.resize(choices.size());
  if (shard_.chooses()) backend_.ChooseTokens(kept_, choices, begun.chosen);
  begun.submission = backend_.Submit();
}

std::vector<ChosenToken> Decoder::Finish() {
  CHECK(!begun_.empty());
  backend_.WaitFor(begun_.front().submission);
  std::vector<ChosenToken> chosen = std::move(begun_.front().chosen);
  begun_.pop_front();
  return chosen;
}

}  // namespace ringside
