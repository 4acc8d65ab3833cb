// The draft layer of a decoder (multi-token prediction: DeepSeek-V3, DeepSeek-AI 2024). At a position it takes the
// token's embedding and the hidden state of the token before it. Steps store its keys and values for all their rows;
// a draft then runs the whole layer for the sequence's last token, and for each token that it has drafted, with its own
// result as the hidden state. Its rows in the cache influence drafts alone.
#include "base/check.h"
#include "engine/model/decoder.h"

namespace ringside {
namespace {

// Rows of hidden states that a small step may gather from: the same number for all, so that their graphs are equal.
constexpr int64_t kSmallRows = 64;

}  // namespace

Status Decoder::ReserveDraft(int64_t rows) {
  if (own_.draft_layers == 0) return Status::Ok();
  for (Scratch* scratch : {&draft_.before, &draft_.inputs, &draft_.stream}) {
    RETURN_IF_ERROR(scratch->Rows(backend_, rows).status());
  }
  return draft_.hidden.Rows(backend_, std::max(1 + 2 * rows, kSmallRows)).status();
}

Tensor Decoder::DraftEmbeddings(Tensor embedded) {
  const Tensor inputs = draft_.inputs.Rows(backend_, embedded.rows).value();
  Norm(embedded, WeightsOfDraft().draft.embedding_norm, none_, inputs.Columns(0, own_.hidden));
  return inputs;
}

Tensor Decoder::HiddenBefore(std::span<const int64_t> rows_before, bool drafted) {
  const int64_t first = drafted ? 1 + draft_.last_rows : 1, end = 1 + draft_.last_rows + draft_.drafted_rows;
  std::vector<int64_t> from;
  for (const int64_t row : rows_before) from.push_back(row < 0 ? 0 : first + row);
  const Tensor states = draft_.hidden.Rows(backend_, std::max(end, kSmallRows)).value();
  const Tensor before = draft_.before.Rows(backend_, std::ssize(from)).value();
  backend_.GatherRows(states, from, before);
  return before;
}

Tensor Decoder::KeepHidden(Tensor before, std::span<const AttentionSegment> segments) {
  const int64_t rows = stream_.rows, count = std::ssize(segments);
  const Tensor all = draft_.hidden.Rows(backend_, std::max(1 + rows + count, kSmallRows)).value();
  Norm(stream_, weights_.final_norm, weights_.final_norm_bias, all.Rows(1, rows));
  draft_.last_rows = rows, draft_.drafted_rows = 0;
  if (rows == count) return before;
  CopyRows(before, all.Rows(1 + rows, count));
  std::vector<int64_t> from;
  for (int64_t i = 0; i < count; ++i) {
    from.push_back(1 + rows + i);
    for (int64_t r = 1; r < segments[static_cast<size_t>(i)].rows; ++r) from.push_back(std::ssize(from));
  }
  const Tensor shifted = draft_.before.Rows(backend_, rows).value();
  backend_.GatherRows(all, from, shifted);
  return shifted;
}

Tensor Decoder::DraftStream(Tensor inputs, Tensor before) {
  const DraftWeights& w = WeightsOfDraft().draft;
  const Tensor stream = draft_.stream.Rows(backend_, inputs.rows).value();
  Norm(before, w.hidden_norm, none_, inputs.Columns(own_.hidden, own_.hidden));
  const Weight* projection[] = {&w.projection};
  backend_.Linear({.x = inputs, .weights = projection, .y = stream});
  return stream;
}

void Decoder::StoreDraftKeys(Tensor stream, const MicroBatch& batch, const KvShape& shape) {
  const LayerWeights& w = WeightsOfDraft();
  const Tensor x = normed_.Rows(backend_, stream.rows).value();
  Norm(stream, w.attention_norm, w.attention_norm_bias, x);
  LayerStep step = FirstStep(batch, shape);
  EnterLayer(own_.layers, batch, {}, &step);
  AttentionArgs args = step.attention;
  args.heads = 0;
  if (own_.latent.rank > 0) {
    const LatentWeights& latent = w.latent;
    args.qkv = qkv_.Rows(backend_, x.rows, own_.head_dim).value();
    args.first_rotary = own_.latent.rank;
    const Weight* down[] = {&latent.down};
    backend_.Linear({.x = x, .weights = down, .y = args.qkv});
    backend_.RmsNormHeads(args.qkv.Columns(0, own_.latent.rank), 1, latent.norm.data(), own_.latent.norm_eps);
    return backend_.Attention(args);
  }
  const auto [kv_heads, head_dim] = own_.KvSizes(own_.layers);
  const int64_t keys = kv_heads * head_dim;
  const int64_t before = own_.gate_columns(own_.layers) + own_.Heads(own_.layers) * head_dim;  // gates and queries
  args.qkv = qkv_.Rows(backend_, x.rows, 2 * keys).value();
  const Weight* weights[] = {&w.qkv[w.qkv.size() - 2], &w.qkv.back()};
  const float* bias = w.qkv_bias.data() == nullptr ? nullptr : w.qkv_bias.data() + before;
  backend_.Linear({.x = x, .weights = weights, .bias = bias, .y = args.qkv});
  if (w.key_norm.data() != nullptr) {
    backend_.RmsNormHeads(args.qkv.Columns(0, keys), kv_heads, w.key_norm.data(), own_.norm_eps);
  }
  backend_.Attention(args);
}

void Decoder::Draft(const StepPlan& plan, bool drafted) {
  const int64_t rows = plan.rows();
  const LayerWeights& w = WeightsOfDraft();
  const MicroBatch batch{.rows = rows, .segments = plan.segments, .angles = plan.angles};
  adapters_of_rows_ = {};
  ++attention_step_;
  const Tensor embedded = draft_.stream.Rows(backend_, rows).value();
  backend_.Embed(weights_.embedding, plan.ids, own_.embedding_scale, embedded);
  const Tensor inputs = DraftEmbeddings(embedded);
  stream_ = DraftStream(inputs, HiddenBefore(plan.rows_before, drafted));
  LayerStep step = FirstStep(batch, plan.shape);
  EnterLayer(own_.layers, batch, {}, &step);
  Block(w, step);
  const int64_t first = 1 + draft_.last_rows;  // its own results are after the states of the last step
  Norm(stream_, w.draft.norm, none_,
       draft_.hidden.Rows(backend_, std::max(first + rows, kSmallRows)).value().Rows(first, rows));
  draft_.drafted_rows = rows;
  const Tensor normed = normed_.Rows(backend_, rows).value();
  Norm(stream_, w.draft.norm, none_, normed);
  Begun& begun = begun_.emplace_back();
  begun.chosen.resize(static_cast<size_t>(rows));
  const std::vector<RowSamplingParams> greedy(static_cast<size_t>(rows), RowSamplingParams{.temperature = 0});
  const Weight* head[] = {&weights_.head()};
  const Tensor logits = logits_.Rows(backend_, rows).value();
  backend_.Linear({.x = normed, .weights = head, .bias = weights_.head_bias.data(), .y = logits});
  backend_.SampleTokens(logits, greedy, begun.chosen);
  begun.submission = backend_.Submit();
}

}  // namespace ringside
