// The draft layer of a decoder (multi-token prediction: DeepSeek-V3, DeepSeek-AI 2024). At a position it takes the
// token's embedding and the hidden state of the token before it. Steps store its keys and values for all their rows
// (Decoder::Run); a draft then runs the whole layer for the sequence's last token, and for each token that it has
// drafted, with its own result as the hidden state. Its rows in the cache influence drafts alone.
#include "engine/model/decoder/decoder.h"

namespace ringside {

void Decoder::Draft(const StepPlan& plan, bool drafted) {
  const MicroBatch batch{.rows = plan.rows(), .segments = plan.segments, .angles = plan.angles};
  adapters_of_rows_ = {};
  ++attention_step_;
  const Tensor embedded = draft_.StreamRows(batch.rows);
  backend_.Embed(weights_.embedding, plan.ids, own_.embedding_scale, embedded);
  draft_.SetEmbeddings(embedded);
  draft_.UseStates(plan.rows_before, drafted);
  stream_ = draft_.Stream();
  Block(draft_.layer(), StepOf(own_.layers, batch, plan.shape, {}));
  Begun& begun = begun_.emplace_back();
  begun.chosen.resize(plan.ids.size());
  const std::vector<RowSamplingParams> greedy(plan.ids.size(), RowSamplingParams{.temperature = 0});
  const Weight* head[] = {&weights_.head()};
  const Tensor logits = logits_.Rows(backend_, batch.rows).value();
  backend_.Linear({.x = draft_.KeepResults(stream_), .weights = head, .bias = weights_.head_bias.data(), .y = logits});
  backend_.SampleTokens(logits, greedy, begun.chosen);
  begun.submission = backend_.Submit();
}

}  // namespace ringside
