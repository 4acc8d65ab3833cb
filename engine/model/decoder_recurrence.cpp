// The recurrent mixers of a layer: projection, recurrence, gate and norm of the result (kernels/recurrence.h).
#include "engine/model/decoder.h"

namespace ringside {
namespace {

/// First columns of the parts of a projected row.
struct ProjectedColumns {
  int64_t x = 0, gate = 0, betas = 0, rates = 0;
};

ProjectedColumns ColumnsOf(const RecurrenceShape& sizes) {
  const int64_t channels = sizes.channels(), values = sizes.values();
  switch (sizes.mixer) {
    case Mixer::kMamba2:
      return {.x = values, .rates = values + channels};
    case Mixer::kConvolution:
      return {.x = 2 * channels, .gate = channels};
    default:
      return {.gate = channels, .betas = channels + values, .rates = channels + values + sizes.value_heads};
  }
}

}  // namespace

// Gated DeltaNet (Yang et al. 2024): Norm(o) silu(gate), with a norm for each head. Mamba-2 (Dao and Gu 2024): Norm(o
// silu(gate)). Short convolution (LFM2): gate times the convolution of x times another gate.
void Decoder::Recur(Tensor x, const LayerWeights& w, const LayerStep& step) {
  const RecurrenceShape& sizes = own_.recurrence;
  const RecurrentWeights& own = w.recurrent;
  const int64_t outputs = own_.recurrent_outputs();
  const Tensor projected = qkv_.Rows(backend_, x.rows, own_.recurrent_columns()).value();
  std::vector<const Weight*> in;
  for (const Weight& weight : own.in) in.push_back(&weight);
  backend_.Linear({.x = x, .weights = in, .bias = own.in_bias.data(), .y = projected});
  RecurrenceArgs args = step.recurrence;
  args.weights = {.convolution = own.convolution.data(),
                  .convolution_bias = own.convolution_bias.data(),
                  .rate_bias = own.rate_bias.data(),
                  .rate = own.rate.data(),
                  .skip = own.skip.data()};
  args.mixed = mixed_.Rows(backend_, x.rows).value();
  args.out = attended_.Rows(backend_, x.rows, outputs).value();
  const ProjectedColumns columns = ColumnsOf(sizes);
  args.x = projected.Columns(columns.x, sizes.channels());
  args.betas = projected.Columns(columns.betas, sizes.value_heads);
  args.rates = projected.Columns(columns.rates, sizes.decays());
  const Tensor gate = projected.Columns(columns.gate, outputs);
  if (sizes.mixer == Mixer::kConvolution) {
    backend_.Gate(projected.Columns(0, sizes.width), GateKind::kIdentity, args.x);
    backend_.Recur(args);
    backend_.Gate(gate, GateKind::kIdentity, args.out);
  } else {
    backend_.Recur(args);
    const bool each = sizes.mixer == Mixer::kDeltaNet;
    if (each) backend_.RmsNormHeads(args.out, sizes.value_heads, own.norm.data(), own_.recurrent_norm_eps);
    backend_.Gate(gate, GateKind::kSilu, args.out);
    for (int64_t group = 0; group < own_.recurrent_groups; ++group) {
      const int64_t width = outputs / own_.recurrent_groups;
      const Tensor part = args.out.Columns(group * width, width);
      backend_.RmsNorm(part, own.norm.data() + group * width, own_.recurrent_norm_eps, part);
    }
  }
  AddToStream(args.out, {own.out, own.out_bias, none_, step.layer, AdaptedPart::kAttentionOut});
}

}  // namespace ringside
