// A model's hidden states: multiplied by the head's rows they give the reference's logits, which determine them (the
// tiny models have a vocabulary three times their hidden size).
#include <gtest/gtest.h>

#include <cstring>

#include "engine/files/safetensors_reader.h"
#include "tests/engine/model/model_run.h"
#include "tests/kernels/devices.h"

namespace ringside {
namespace {

class HiddenStates : public testing::DeviceTest, public ::testing::WithParamInterface<std::string> {
 protected:
  void SetUp() override { Use(GetParam()); }

  /// [vocab, hidden], in float32.
  static std::vector<float> ReadMatrix(const std::string& folder, const std::string& name) {
    const auto file = SafeTensors::OpenFolder(folder);
    EXPECT_TRUE(file.ok()) << file.status().ToString();
    for (const FileTensor& tensor : file->tensors()) {
      if (tensor.name != name) continue;
      std::vector<float> values(tensor.data.bytes.size() / sizeof(float));
      std::memcpy(values.data(), tensor.data.bytes.data(), tensor.data.bytes.size());
      return values;
    }
    ADD_FAILURE() << name;
    return {};
  }
};
INSTANTIATE_TEST_SUITE_P(All, HiddenStates, ::testing::ValuesIn(testing::DeviceNames()),
                         [](const auto& info) { return info.param; });

TEST_P(HiddenStates, GiveTheReferenceLogits) {
  const double tolerance = GetParam() == "cpu" ? 1e-4 : 3 * testing::Rounding(backend_->activation_dtype());
  for (const auto& [name, head_name] :
       {std::pair{"llama", "lm_head.weight"}, std::pair{"gpt2", "transformer.wte.weight"}}) {
    const std::string folder = GoldenFolder(name);
    const auto model = Model::Load(folder, *backend_);
    ASSERT_TRUE(model.ok()) << model.status().ToString();
    const std::vector<float> head = ReadMatrix(folder, head_name), want = ReadFloats(folder + "/logits.f32");
    const auto vocab = static_cast<size_t>((*model)->spec().vocab),
               hidden = static_cast<size_t>((*model)->shape().hidden);
    ASSERT_EQ(head.size(), vocab * hidden);
    const std::vector<TokenId> ids = GoldenIds();
    const DType dtype = backend_->activation_dtype();
    OwnCache cache(**model, {0, 64, Eviction::kToken}, 16, dtype), other(**model, {0, 64, Eviction::kToken}, 16, dtype),
        last(**model, {0, 64, Eviction::kToken}, 16, dtype);
    std::vector<float> states, got;
    for (size_t at = 0; at < ids.size(); at += 8) {
      // Its rows are between those of two other sequences; one needs logits.
      const std::vector<TokenId> few{3, 5};
      const std::span<const TokenId> chunk = std::span(ids).subspan(at, 8);
      const StepPart parts[] = {{other.get(), few},
                                {cache.get(), chunk, StepPart::Logits::kNone, 0, true},
                                {last.get(), std::span(few).first(1), StepPart::Logits::kNone, 0, at > 0}};
      std::vector<SampledToken> chosen(1);
      RowSamplingParams choice;
      choice.temperature = 0;
      (*model)->Begin(parts, {&choice, 1});
      (*model)->Finish(chosen);
      const std::span<const float> rows = (*model)->hidden_states();
      ASSERT_EQ(rows.size(), (at > 0 ? 9 : 8) * hidden);
      states.insert(states.end(), rows.begin(), rows.begin() + static_cast<ptrdiff_t>(8 * hidden));
    }
    for (size_t row = 0; row < ids.size(); ++row) {
      for (size_t token = 0; token < vocab; ++token) {
        double sum = 0;
        for (size_t i = 0; i < hidden; ++i) sum += double{states[row * hidden + i]} * double{head[token * hidden + i]};
        got.push_back(static_cast<float>(sum));
      }
    }
    EXPECT_LT(GetParam() == "cpu" ? RelativeError(got, want) : NormError(got, want), tolerance) << name;
  }
}

// Every rank has the whole residual stream, and the last stage has it after all layers.
TEST(ShardedHiddenStates, EqualThoseOfOneRank) {
  const auto states_of = [](const RankLayout& layout) {
    const auto ranks = testing::MakeTestRanks("cpu", layout);
    std::vector<Backend*> backends;
    for (const auto& rank : ranks) backends.push_back(rank.get());
    const auto model = Model::Load(GoldenFolder("llama"), backends, layout.stages);
    CHECK(model.ok());
    OwnCache cache(**model, {0, 64, Eviction::kToken}, 40);
    const std::vector<TokenId> ids = GoldenIds();
    const StepPart part{cache.get(), ids, StepPart::Logits::kNone, 0, true};
    (*model)->Begin({&part, 1}, {});
    (*model)->Finish({});
    const std::span<const float> rows = (*model)->hidden_states();
    return std::vector<float>(rows.begin(), rows.end());
  };
  const std::vector<float> want = states_of({1, 1});
  ASSERT_EQ(want.size(), GoldenIds().size() * 32);
  for (const RankLayout& layout : {RankLayout{2, 1}, RankLayout{1, 2}, RankLayout{2, 2}}) {
    EXPECT_LT(RelativeError(states_of(layout), want), 1e-5);
  }
}

}  // namespace
}  // namespace ringside
