// Several residual streams of a decoder (AltUp, Baykal et al. 2023; Gemma 3n): a layer computes one stream and corrects
// the others.
#include <cmath>

#include "engine/model/decoder/decoder.h"

namespace ringside {

// The first stream is the embedding, the others are projections of it with its magnitude.
void Decoder::SplitStreams() {
  const Tensor all = streams_.streams.Rows(backend_, stream_.rows).value();
  CopyRows(backend_, stream_, all.Columns(0, own_.hidden));
  for (int64_t i = 1; i < own_.streams.count; ++i) {
    const Tensor own = all.Columns(i * own_.hidden, own_.hidden);
    const Weight* weights[] = {&weights_.stream_in[static_cast<size_t>(i - 1)]};
    backend_.Linear({.x = stream_, .weights = weights, .y = own});
    backend_.MatchMagnitude(stream_, own);
  }
}

void Decoder::JoinStreams() {
  const Tensor all = streams_.streams.Rows(backend_, stream_.rows).value();
  const Tensor first = all.Columns(0, own_.hidden), own = part_.Rows(backend_, stream_.rows).value();
  CopyRows(backend_, first, stream_);
  for (int64_t i = 1; i < own_.streams.count; ++i) {
    const Weight* weights[] = {&weights_.stream_out[static_cast<size_t>(i - 1)]};
    backend_.Linear({.x = all.Columns(i * own_.hidden, own_.hidden), .weights = weights, .y = own});
    backend_.MatchMagnitude(first, own);
    backend_.Add(own, stream_);
  }
  backend_.Scale(stream_, 1 / static_cast<float>(own_.streams.count));
}

Tensor Decoder::StreamWeightsOf(Tensor stream, const LayerWeights& w) {
  const Tensor normed = normed_.Rows(backend_, stream.rows).value();
  Norm(stream, w.streams.router_norm, none_, normed);
  const Tensor out = streams_.weights.Rows(backend_, stream.rows).value();
  const Weight* weights[] = {&w.streams.router};
  backend_.Linear({.x = normed, .weights = weights, .y = out});
  backend_.SoftCap(out, 1);  // tanh
  return out;
}

void Decoder::BlockOfStreams(const LayerWeights& w, const LayerStep& step) {
  const int64_t count = own_.streams.count, rows = stream_.rows;
  const Tensor all = streams_.streams.Rows(backend_, rows).value();
  const Tensor predicted = streams_.predicted.Rows(backend_, rows).value();
  const auto part = [&](Tensor x, int64_t i) { return x.Columns(i * own_.hidden, own_.hidden); };
  const auto linear = [&](Tensor x, const Weight& weight, Tensor y) {
    const Weight* weights[] = {&weight};
    backend_.Linear({.x = x, .weights = weights, .y = y});
  };
  // Each stream is predicted from all.
  const Tensor mixing = streams_.factors.Rows(backend_, rows).value();
  linear(StreamWeightsOf(part(all, 0), w), w.streams.predict, mixing);
  CopyRows(backend_, all, predicted);
  for (int64_t i = 0; i < count; ++i) {
    for (int64_t j = 0; j < count; ++j) {
      backend_.AddScaledRows(part(all, j), mixing.Columns(i * count + j, 1), part(predicted, i));
    }
  }
  // The layer of the first: (x + attention + laurel) / sqrt(2), then the MLP.
  CopyRows(backend_, part(predicted, 0), stream_);
  const Tensor normed = NormedStream(w.attention_norm, w.attention_norm_bias, normed_);
  const Tensor low = streams_.laurel_low.Rows(backend_, rows).value();
  const Tensor laurel = streams_.laurel.Rows(backend_, rows).value();
  linear(normed, w.streams.laurel_down, low);
  linear(low, w.streams.laurel_up, laurel);
  PostNorm(laurel, w.streams.laurel_norm);
  backend_.Add(normed, laurel);
  Attend(normed, w, step);
  backend_.Add(laurel, stream_);
  backend_.Scale(stream_, std::sqrt(0.5f));
  Mlp(NormedStream(w.mlp_norm, w.mlp_norm_bias, normed_), w, step.layer);
  // All are corrected by its difference from the prediction, times 1 + a factor.
  const Tensor factors = mixing.Columns(0, count);
  linear(StreamWeightsOf(stream_, w), w.streams.correct, factors);
  const Tensor difference = laurel;
  CopyRows(backend_, part(predicted, 0), difference);
  backend_.Scale(difference, -1);
  backend_.Add(stream_, difference);
  for (int64_t i = 0; i < count; ++i) {
    backend_.Add(difference, part(predicted, i));
    backend_.AddScaledRows(difference, factors.Columns(i, 1), part(predicted, i));
  }
  CopyRows(backend_, predicted, all);
  CopyRows(backend_, part(all, 0), stream_);
  if (own_.streams.scaled) backend_.ScaleColumns(stream_, w.streams.scale.data());
  const Tensor input = LayerInput(stream_, w, step.layer);
  for (int64_t i = 1; i < count; ++i) backend_.Add(input, part(all, i));
}

}  // namespace ringside
