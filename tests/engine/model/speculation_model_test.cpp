// Speculative decoding on models of many families: answers and log probabilities with drafts equal those without, bit
// for bit.
#include <gtest/gtest.h>

#include "tests/engine/model/drafted_answers.h"
#include "tests/engine/model/family_names.h"

namespace ringside {
namespace {

// Windowed, latent, expert, shared-key and recurrent layers; learned positions and ALiBi.
constexpr const char* kSpeculating[] = {"gemma3",     "gemma3n_text", "deepseek_v3", "gpt_oss",          "opt",
                                        "bloom",      "lfm2",         "qwen3_next",  "granitemoehybrid", "falcon_h1",
                                        "kimi_linear"};

class SpeculatingModels : public ::testing::TestWithParam<const char*> {};

INSTANTIATE_TEST_SUITE_P(Families, SpeculatingModels, ::testing::ValuesIn(kSpeculating),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(SpeculatingModels, AnswersEqualThoseWithoutDrafts) {
  const auto backend = MakeTestBackend(2);
  const auto model = std::move(Model::Load(FamilyFolder(GetParam()), *backend).value());
  for (const double temperature : {0.0, 0.8}) {
    const std::vector<DraftedAnswer> plain = AnswerTwice(*model, Speculation::kOff, temperature),
                                     drafting = AnswerTwice(*model, Speculation::kNgram, temperature);
    int64_t drafted = 0;
    for (size_t turn = 0; turn < plain.size(); ++turn) {
      EXPECT_EQ(drafting[turn].ids, plain[turn].ids);
      EXPECT_EQ(drafting[turn].logprobs, plain[turn].logprobs);
      EXPECT_EQ(plain[turn].drafts.drafted, 0);
      drafted += drafting[turn].drafts.drafted;
    }
    if (temperature == 0) {
      EXPECT_GT(drafted, 0);
    }
  }
}

}  // namespace
}  // namespace ringside
