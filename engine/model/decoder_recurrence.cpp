// The recurrent mixers of a layer: projection, recurrence, gate and norm of the result (kernels/recurrence.h).
#include "engine/model/decoder.h"

namespace ringside {

// Gated DeltaNet (Yang et al. 2024): the norm of each head's result, times silu of the gate.
void Decoder::Recur(Tensor x, const LayerWeights& w, const LayerStep& step) {
  const RecurrenceShape& sizes = own_.recurrence;
  const RecurrentWeights& own = w.recurrent;
  const Tensor projected = qkv_.Rows(backend_, x.rows, own_.recurrent_columns()).value();
  std::vector<const Weight*> in;
  for (const Weight& weight : own.in) in.push_back(&weight);
  backend_.Linear({.x = x, .weights = in, .y = projected});
  RecurrenceArgs args = step.recurrence;
  args.weights = {.convolution = own.convolution.data(),
                  .convolution_bias = own.convolution_bias.data(),
                  .rate_bias = own.rate_bias.data(),
                  .rate = own.rate.data(),
                  .skip = own.skip.data()};
  args.mixed = mixed_.Rows(backend_, x.rows).value();
  args.out = attended_.Rows(backend_, x.rows, own_.recurrent_outputs()).value();
  const int64_t gate = sizes.channels(), beta = gate + sizes.values();
  args.x = projected.Columns(0, sizes.channels());
  args.betas = projected.Columns(beta, sizes.value_heads);
  args.rates = projected.Columns(beta + sizes.value_heads, sizes.value_heads);
  backend_.Recur(args);
  backend_.RmsNormHeads(args.out, sizes.value_heads, own.norm.data(), own_.norm_eps);
  backend_.Gate(projected.Columns(gate, sizes.values()), GateKind::kSilu, args.out);
  AddToStream(args.out, {own.out, none_, none_, step.layer, AdaptedPart::kAttentionOut});
}

}  // namespace ringside
