// Shared prefixes of a step: which sequences form a group, and that a model's results do not depend on it.
#include "engine/model/shared_prefixes.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>

#include "tests/engine/model/model_run.h"
#include "tests/kernels/forwarding_backend.h"

namespace ringside {
namespace {

constexpr RingWindow kWindow{8, 2000, Eviction::kToken};

/// Caches without memory, and the segments of a step that decodes one token of each.
class Step {
 public:
  KvCache* Add() {
    caches_.push_back(std::make_unique<KvCache>(shape_, &slabs_[caches_.size()]));
    caches_.back()->Reset(kWindow);
    return caches_.back().get();
  }
  KvCache* Add(const KvCache& donor, int64_t tokens, int64_t own) {
    KvCache* cache = Add();
    cache->Adopt(donor, tokens);
    if (own > 0) cache->ring().Append(own);
    return cache;
  }
  /// The prefix lengths of the sequences; 0: none.
  std::vector<int64_t> Find() {
    first_live_.assign(caches_.size(), 0);
    segments.clear();
    std::vector<const KvCache*> caches;
    for (const auto& cache : caches_) {
      const size_t i = caches.size();
      caches.push_back(cache.get());
      const int64_t position = cache->ring().Append(1);
      first_live_[i] = cache->ring().FirstHeld(position);
      segments.push_back({.rows = 1,
                          .position = position,
                          .pinned = kWindow.pinned,
                          .first_live = &first_live_[i],
                          .slab = cache->slab(),
                          .history = cache->history(),
                          .branch = cache->branch()});
    }
    prefixes_.Find(caches, segments);
    std::vector<int64_t> ends;
    for (const AttentionSegment& s : segments) ends.push_back(s.prefix_end);
    return ends;
  }

  std::vector<AttentionSegment> segments;

 private:
  const KvShape shape_ = MakeKvShape(1, 1, 4, DType::kF32, 8, 2000, 256);
  std::array<char, 16> slabs_{};
  std::vector<std::unique_ptr<KvCache>> caches_;
  std::vector<int64_t> first_live_;
  SharedPrefixes prefixes_;
};

TEST(SharedPrefixes, GroupsReadTheLongestPrefixThatPays) {
  Step step;
  KvCache* donor = step.Add();
  donor->ring().Append(1500);
  step.Add(*donor, 1200, 50);
  step.Add(*donor, 1300, 0);
  step.Add(*donor, 200, 700);  // too short
  KvCache* unrelated = step.Add();
  unrelated->ring().Append(900);
  EXPECT_EQ(step.Find(), (std::vector<int64_t>{1200, 1200, 1200, 0, 0}));
  EXPECT_EQ(step.segments[0].prefix, step.segments[2].prefix);
  EXPECT_TRUE(step.segments[0].prefix != nullptr && step.segments[3].prefix == nullptr);
}

TEST(SharedPrefixes, ATreeOfForksIsCutWhereItSavesMost) {
  Step step;
  KvCache* root = step.Add();
  root->ring().Append(300);
  KvCache* one = step.Add(*root, 300, 1000);
  KvCache* two = step.Add(*root, 300, 900);
  step.Add(*one, 1300, 5);
  step.Add(*one, 1250, 5);
  step.Add(*two, 1200, 5);
  // One group of six saves 5 x 300 tokens; two groups save 2 x 1,250 + 1,200.
  EXPECT_EQ(step.Find(), (std::vector<int64_t>{0, 1250, 1200, 1250, 1250, 1200}));
  EXPECT_NE(step.segments[1].prefix, step.segments[2].prefix);
}

TEST(SharedPrefixes, EvictionLeavesThePinnedTokens) {
  Step step;
  KvCache* donor = step.Add();
  donor->ring().Append(1900);
  step.Add(*donor, 1900, 0);
  KvCache* wraps = step.Add(*donor, 1900, 200);
  EXPECT_EQ(step.Find(), (std::vector<int64_t>{1900, 1900, 0})) << "8 pinned tokens are not worth a group";
  EXPECT_GT(wraps->ring().FirstLive(wraps->ring().next()), kWindow.pinned);
}

TEST(SharedPrefixes, BranchesReadTheirHistory) {
  Step step;
  KvCache* history = step.Add();
  history->ring().Append(1005);
  step.Add()->BranchOff(*history, 1005);
  step.Add()->BranchOff(*history, 1005);
  const std::vector<int64_t> ends = step.Find();
  const int64_t branch = KvCache::BranchAt(1005, kWindow.pinned);
  EXPECT_EQ(ends, (std::vector<int64_t>{branch, branch, branch}));
  for (const AttentionSegment& s : step.segments) EXPECT_EQ(s.prefix, history->slab());
}

/// Counts the segments with a prefix.
class CountsPrefixes final : public ForwardingBackend {
 public:
  using ForwardingBackend::ForwardingBackend;
  void Attention(const AttentionArgs& args) override {
    for (const AttentionSegment& s : args.segments) grouped += s.prefix != nullptr ? 1 : 0;
    ForwardingBackend::Attention(args);
  }
  int64_t grouped = 0;
};

// Ten sequences decode behind a copied prefix; with the same bytes restored as if from snapshots, nothing is grouped.
TEST(SharedPrefixes, DecodeHasTheSameBits) {
  CountsPrefixes backend(MakeTestBackend(2));
  auto model = Model::Load(GoldenFolder("llama"), backend);
  ASSERT_TRUE(model.ok());
  constexpr int64_t kTokens = 600, kSteps = 3;
  constexpr size_t kSequences = 10;
  const auto ids = ScatteredIds(kTokens + 200, (*model)->spec().vocab);
  OwnCache donor(**model, kWindow, 64);
  RunAll(**model, donor.get(), std::span(ids).first(kTokens), 64);
  const auto decode = [&](bool adopt) {
    std::vector<std::unique_ptr<OwnCache>> caches;
    for (size_t i = 0; i < kSequences; ++i) {
      const int64_t tokens = kTokens - 20 * static_cast<int64_t>(i);
      caches.push_back(std::make_unique<OwnCache>(**model, kWindow, 64));
      KvCache& cache = *caches.back()->get();
      std::memcpy(cache.slab(), donor->slab(), static_cast<size_t>(cache.shape().HeldBytes(tokens, kWindow.pinned)));
      if (adopt) {
        cache.Adopt(*donor.get(), tokens);
      } else {
        CHECK(cache.Restore(tokens, kWindow.pinned, {}, {}).ok());
      }
    }
    std::vector<float> all;
    for (int64_t step = 0; step < kSteps; ++step) {
      std::vector<StepPart> parts;
      for (size_t i = 0; i < kSequences; ++i) {
        const auto token = std::span(ids).subspan(kTokens + static_cast<size_t>(step) * kSequences + i, 1);
        parts.push_back({caches[i]->get(), token, StepPart::Logits::kLast});
      }
      std::vector<float> logits(kSequences * static_cast<size_t>((*model)->spec().vocab));
      (*model)->Forward(parts, logits);
      all.insert(all.end(), logits.begin(), logits.end());
    }
    return all;
  };
  const std::vector<float> want = decode(false);
  EXPECT_EQ(backend.grouped, 0);
  EXPECT_EQ(decode(true), want);
  EXPECT_EQ(backend.grouped, kSteps * static_cast<int64_t>(kSequences) * (*model)->spec().attention_layers());
}

}  // namespace
}  // namespace ringside
