#include "engine/model/model.h"

#include <algorithm>

#include "engine/model/model_facts.h"
#include "engine/model/model_state.h"
#include "kernels/deferred_token.h"

namespace ringside {

Model::State::~State() {
  group.Run([this](size_t rank) {
    if (rank < decoders.size()) decoders[rank].reset();
  });
  // Wait until all remotes have completed their calls before the first one is destroyed.
  for (const auto& remote : remotes) (void)remote->free_bytes();
}

void Model::State::Run(std::span<const StepPart> parts, const std::function<void(RankDecoder&, size_t rank)>& then) {
  planner.Plan(parts, &plan);
  group.Post([this, then](size_t rank) {
    RankDecoder& own_part = decoder(rank);
    if (slabs == nullptr) {
      own_part.Run(plan, plan.shape, plan.segments);
    } else {
      std::vector<AttentionSegment> own = plan.segments;
      for (AttentionSegment& segment : own) {
        segment.slab = slabs->Local(rank, segment.slab);
        if (segment.prefix != nullptr) segment.prefix = slabs->Local(rank, segment.prefix);
      }
      own_part.Run(plan, slabs->ShapeOf(rank, plan.shape), own);
    }
    then(own_part, rank);
  });
}

Model::Model(std::unique_ptr<State> state) : state_(std::move(state)) {}
Model::~Model() = default;

const ModelSpec& Model::spec() const { return state_->spec; }
SlabMemory& Model::memory() const {
  return state_->slabs != nullptr ? static_cast<SlabMemory&>(*state_->slabs) : backend();
}
Backend& Model::backend() const { return *state_->backends.front(); }
NetworkShape Model::shape() const {
  const ModelSpec& spec = state_->spec;
  NetworkShape shape = ShapeOf(spec);
  for (const Shard& shard : state_->shards) {
    const ModelSpec own = shard.Of(spec);
    shape.max_heads = std::max(shape.max_heads, own.attention_layers() * own.kv_heads);
  }
  for (const int64_t tokens : state_->virtual_tokens) {
    shape.max_virtual_tokens = std::max(shape.max_virtual_tokens, tokens);
  }
  shape.branches = state_->slabs == nullptr && spec.encoder_layers == 0;
  shape.whole_image_tokens = state_->whole_image_tokens;
  shape.adapters = static_cast<int>(state_->adapter_fingerprints.size());
  return shape;
}
int64_t Model::virtual_tokens(int adapter) const {
  return adapter == 0 ? 0 : state_->virtual_tokens.at(static_cast<size_t>(adapter - 1));
}
const ImageFormat* Model::image_format() const { return state_->image_format ? &*state_->image_format : nullptr; }
std::shared_ptr<const ImageRows> Model::EncodeImage(const Picture& picture, int64_t rows, int64_t* spent) {
  CHECK(state_->images != nullptr);
  return state_->images->Encode(picture, rows, spent);
}
bool Model::runs_ahead() const { return backend().runs_ahead(); }
const TokenizerData& Model::tokenizer_data() const { return state_->tokenizer; }
const std::string& Model::chat_template() const { return state_->chat_template; }
const Fingerprint& Model::fingerprint() const { return state_->fingerprint; }
const std::vector<Fingerprint>& Model::adapter_fingerprints() const { return state_->adapter_fingerprints; }
int64_t Model::weight_bytes() const { return state_->weight_bytes; }

Status Model::Reserve(int64_t rows) {
  return state_->group.Try([&](size_t rank) { return state_->decoder(rank).Reserve(rows); });
}

void Model::Forward(std::span<const StepPart> parts, std::span<float> logits) {
  const State& state = *state_;
  state_->Run(parts, [&](RankDecoder& decoder, size_t rank) {
    if (rank > 0) return decoder.CopyLogits({});
    CHECK_EQ(static_cast<int64_t>(logits.size()), std::ssize(state.plan.wanted_rows) * state.spec.vocab);
    decoder.CopyLogits(logits);
  });
  state_->group.Wait();
}

void Model::Begin(std::span<const StepPart> parts, std::span<const RowSamplingParams> choices) {
  state_->Run(parts, [choices](RankDecoder& decoder, size_t) { decoder.Choose(choices); });
  state_->group.Wait();
}

void Model::BeginDeferred(std::span<const StepPart> parts) {
  state_->Run(parts, [](RankDecoder& decoder, size_t) { decoder.KeepLogits(); });
}

void Model::Choose(std::span<const RowSamplingParams> choices) {
  state_->group.Run([&](size_t rank) { state_->decoder(rank).ChooseKept(choices, {}); });
}

void Model::Finish(std::span<SampledToken> chosen) {
  state_->group.Run([&](size_t rank) {
    const std::vector<SampledToken> own = state_->decoder(rank).Finish();
    if (rank > 0) return;  // all ranks have sampled the same tokens
    CHECK_EQ(chosen.size(), own.size());
    std::ranges::copy(own, chosen.begin());
  });
}

bool Model::samples_rows() const { return state_->slabs == nullptr && state_->spec.encoder_layers == 0; }

void Model::SampleRows(std::span<const size_t> rows, std::span<const RowSamplingParams> choices,
                       std::span<SampledToken> sampled) {
  CHECK(samples_rows());
  state_->group.Run([&](size_t rank) { state_->decoder(rank).ChooseKept(choices, rows); });
  Finish(sampled);
}

bool Model::has_draft_layer() const { return state_->spec.draft_layers > 0; }

std::vector<std::vector<TokenId>> Model::Draft(std::span<const DraftPart> parts) {
  CHECK(has_draft_layer());
  Decoder& decoder = *state_->decoders.front();
  std::vector<std::vector<TokenId>> drafted(parts.size());
  std::vector<std::vector<size_t>> passes;  // the parts of each pass
  std::vector<int64_t> row_of(parts.size());
  for (int64_t ahead = 0;; ++ahead) {
    std::vector<StepPlanner::DraftRow> rows;
    std::vector<size_t> pass;
    for (size_t i = 0; i < parts.size(); ++i) {
      if (parts[i].count <= ahead) continue;
      // The token of an earlier pass is still on the device.
      const TokenId token = ahead == 0 ? parts[i].token : DeferredToken(static_cast<size_t>(row_of[i]));
      rows.push_back({&parts[i], token, row_of[i]});
      row_of[i] = std::ssize(pass);
      pass.push_back(i);
    }
    if (rows.empty()) break;
    state_->planner.PlanDraft(rows, ahead, &state_->draft_plan);
    decoder.Draft(state_->draft_plan, ahead > 0);
    passes.push_back(std::move(pass));
  }
  for (size_t ahead = 0; ahead < passes.size(); ++ahead) {
    const std::vector<SampledToken> sampled = decoder.Finish();
    for (size_t row = 0; row < sampled.size(); ++row) {
      std::vector<TokenId>& tokens = drafted[passes[ahead][row]];
      const bool follows = tokens.size() == ahead;  // no earlier one failed
      if (follows && sampled[row].outcome == SampledToken::Outcome::kChosen) tokens.push_back(sampled[row].id);
    }
  }
  return drafted;
}

std::span<const float> Model::hidden_states() const { return state_->decoders.front()->hidden_states(); }

}  // namespace ringside
