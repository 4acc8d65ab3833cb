// An engine on the hash network, with or without run-ahead, for tests of the reports about prompts.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

#include "tests/engine/engine_harness.h"
#include "tests/engine/hash_network.h"

namespace ringside {

class HashEngineTest : public ::testing::TestWithParam<bool> {
 protected:
  static constexpr RingWindow kWindow{4, 300, Eviction::kToken};

  void Start(EngineOptions options) {
    options.memory_len = kWindow.memory_len;
    options.pinned_max = 8;
    options.kv_dtype = DType::kF32;
    auto started = Engine::Start(network_, tokenizer_, options);
    ASSERT_TRUE(started.ok()) << started.status().ToString();
    engine_ = std::move(*started);
  }
  SubmittedTurn Submit(SubmittedTurn turn) {
    const Status accepted = engine_->Submit(turn.request);
    EXPECT_TRUE(accepted.ok()) << accepted.ToString();
    return turn;
  }
  /// Checks that every token follows from the previous ones.
  static void ExpectRight(const SubmittedTurn& turn, const TurnEnd& end) {
    std::vector<TokenId> tokens = turn.request.tokens;
    for (const TokenId id : end.output) {
      ASSERT_EQ(id, HashNetwork::Expected(tokens, {}, kWindow)) << "after " << tokens.size() << " tokens";
      tokens.push_back(id);
    }
  }

  std::unique_ptr<Backend> backend_ = std::move(*MakeCpuBackend({.threads = 1}));
  HashNetwork network_{*backend_, GetParam()};
  LetterTokenizer tokenizer_{HashNetwork::kVocab};
  std::unique_ptr<Engine> engine_;
  TurnId next_turn_ = 1;
};

}  // namespace ringside
