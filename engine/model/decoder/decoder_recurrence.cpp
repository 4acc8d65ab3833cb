// The recurrent mixers of a layer: projection, recurrence, gate and norm of the result (kernels/recurrence.h).
#include "engine/model/decoder/decoder.h"

namespace ringside {
namespace {

/// First columns of the parts of a projected row.
struct ProjectedColumns {
  int64_t x = 0, gate = 0, betas = 0, rates = 0;
  int64_t rates_in = 0, gate_in = 0;  // low-rank inputs
};

ProjectedColumns ColumnsOf(const RecurrenceShape& sizes, int64_t rank) {
  const int64_t channels = sizes.channels(), values = sizes.values();
  switch (sizes.mixer) {
    case Mixer::kMamba2:
      return {.x = values, .rates = values + channels};
    case Mixer::kKda: {
      const int64_t betas = channels + 2 * rank, rates = betas + sizes.value_heads;
      return {.gate = rates + sizes.decays(),
              .betas = betas,
              .rates = rates,
              .rates_in = channels,
              .gate_in = channels + rank};
    }
    case Mixer::kConvolution:
      return {.x = 2 * channels, .gate = channels};
    default:
      return {.gate = channels, .betas = channels + values, .rates = channels + values + sizes.value_heads};
  }
}

}  // namespace

// Gated DeltaNet (Yang et al. 2024): Norm(o) silu(gate), with a norm for each head. Kimi Delta Attention (Kimi Team
// 2025): Norm(o) sigmoid(gate), with decays and gate of low rank. Mamba-2 (Dao and Gu 2024): Norm(o
// silu(gate)). Short convolution (LFM2): gate times the convolution of x times another gate.
void Decoder::Recur(Tensor x, const LayerWeights& w, const LayerStep& step) {
  const RecurrenceShape& sizes = own_.recurrence;
  const RecurrentWeights& own = w.recurrent;
  const int64_t outputs = own_.recurrent_outputs();
  const Tensor projected = qkv_.Rows(backend_, x.rows, own_.recurrent_columns()).value();
  std::vector<const Weight*> in;
  int64_t direct = 0;  // columns that are projected from x
  for (const Weight& weight : own.in) in.push_back(&weight), direct += weight.rows;
  backend_.Linear({.x = x, .weights = in, .bias = own.in_bias.data(), .y = projected.Columns(0, direct)});
  if (own.in_factors.data() != nullptr) backend_.ScaleColumns(projected, own.in_factors.data());
  RecurrenceArgs args = step.recurrence;
  args.weights = {.convolution = own.convolution.data(),
                  .convolution_bias = own.convolution_bias.data(),
                  .rate_bias = own.rate_bias.data(),
                  .rate = own.rate.data(),
                  .skip = own.skip.data()};
  args.mixed = mixed_.Rows(backend_, x.rows).value();
  args.out = attended_.Rows(backend_, x.rows, outputs).value();
  const ProjectedColumns columns = ColumnsOf(sizes, own_.recurrent_rank);
  args.x = projected.Columns(columns.x, sizes.channels());
  args.betas = projected.Columns(columns.betas, sizes.value_heads);
  args.rates = projected.Columns(columns.rates, sizes.decays());
  const Tensor gate = projected.Columns(columns.gate, outputs);
  if (sizes.mixer == Mixer::kConvolution) {
    backend_.Gate(projected.Columns(0, sizes.width), GateKind::kIdentity, args.x);
    backend_.Recur(args);
    backend_.Gate(gate, GateKind::kIdentity, args.out);
  } else {
    if (sizes.mixer == Mixer::kKda) {
      const Weight *rates_up[] = {&own.rates_up}, *gate_up[] = {&own.gate_up};
      const int64_t rank = own_.recurrent_rank;
      backend_.Linear({.x = projected.Columns(columns.rates_in, rank), .weights = rates_up, .y = args.rates});
      backend_.Linear({.x = projected.Columns(columns.gate_in, rank), .weights = gate_up, .y = gate});
    }
    backend_.Recur(args);
    if (sizes.corrects()) backend_.RmsNormHeads(args.out, sizes.value_heads, own.norm.data(), own_.recurrent_norm_eps);
    backend_.Gate(gate, sizes.mixer == Mixer::kKda ? GateKind::kSigmoid : GateKind::kSilu, args.out);
    for (int64_t group = 0; group < own_.recurrent_groups; ++group) {
      const int64_t width = outputs / own_.recurrent_groups;
      const Tensor part = args.out.Columns(group * width, width);
      const float* weight = own.norm.data() + group * width;
      if (own_.recurrent_groups == whole_.recurrent_groups && !shard_.whole())
        backend_.RmsNormOfRanks(part, whole_.recurrence.values(), true, weight, own_.recurrent_norm_eps);
      else
        backend_.RmsNormHeads(part, 1, weight, own_.recurrent_norm_eps);
    }
  }
  if (own_.factors.recurrent != 1) backend_.Scale(args.out, own_.factors.recurrent);
  // Adapters of the layer's attention do not adapt the recurrence.
  AddToStream(args.out, {own.out, own.out_bias, w.attention_post_norm, -1, AdaptedPart::kAttentionOut});
}

}  // namespace ringside
