// The equalities that sessions rely on, through the real engine on every available device: two turns equal one, alone
// equals batched, spilled equals resident, drafts change nothing, a wrapped ring, rewind and fork; NaN logits end only
// their own turn; caches spilled and restored alongside decoding turns keep every byte.
#include "tests/engine/device_engine.h"

#include <atomic>
#include <latch>
#include <map>

namespace ringside {
namespace {

INSTANTIATE_TEST_SUITE_P(All, DeviceEngineTest, ::testing::ValuesIn(testing::EngineDeviceNames()),
                         [](const auto& info) { return info.param; });

TEST_P(DeviceEngineTest, TwoTurnsEqualOneShot) {
  Start({.slots = 2});
  for (uint32_t seed = 1; seed <= 8; ++seed) {
    const std::vector<TokenId> first = Ids(30 + 7 * seed, seed), more = Ids(11 + seed, 100 + seed);
    const Answer said = Run(Turn(seed, first, 12));
    const std::vector<TokenId> whole = Joined(Joined(first, said.ids), more);
    const Answer second = Run(Turn(seed, whole, 24));
    EXPECT_EQ(second.end.report.source, CacheSource::kSlot);
    const Answer once = Run(Turn(1000 + seed, whole, 24));
    EXPECT_EQ(once.end.report.source, CacheSource::kNew);
    ExpectSame(second, once, false, "two turns " + std::to_string(seed));
  }
  ReportParted();
}

TEST_P(DeviceEngineTest, AloneEqualsAmong31Others) {
  constexpr TimelineId kSessions = 32;
  Start({.slots = kSessions});
  std::vector<SubmittedTurn> turns;
  for (TimelineId i = 1; i <= kSessions; ++i) turns.push_back(Turn(i, Ids(20 + 5 * i, i), 32));
  for (const SubmittedTurn& turn : turns) ASSERT_TRUE(engine_->Submit(turn.request).ok());
  std::vector<Answer> among;
  for (const SubmittedTurn& turn : turns) among.push_back(Wait(turn));
  for (TimelineId i = 1; i <= kSessions; ++i) {
    engine_->Close(i);
    const Answer alone = Run(Turn(1000 + i, Ids(20 + 5 * i, i), 32));
    engine_->Close(1000 + i);
    ExpectSame(among[i - 1], alone, false, "session " + std::to_string(i));
  }
  ReportParted();
}

TEST_P(DeviceEngineTest, SpilledThroughHostAndDiskEqualsKept) {
  Start({.slots = 3}, /*tiers=*/true);
  for (const CacheSource source : {CacheSource::kHost, CacheSource::kDisk}) {
    for (uint32_t seed = 1; seed <= 4; ++seed) {
      const TimelineId kept = 10 * seed + (source == CacheSource::kHost ? 1 : 2), spilled = kept + 1000;
      const std::vector<TokenId> first = Ids(60 + 40 * seed, seed);
      const Answer said = Run(Turn(kept, first, 9));
      const std::vector<TokenId> whole = Joined(Joined(first, said.ids), Ids(5 + seed, 50 + seed));
      ExpectSame(Run(Turn(spilled, first, 9)), said, true, "the same turn again");
      engine_->Park(spilled);
      if (source == CacheSource::kDisk) {
        ASSERT_TRUE(WaitFor([&](auto done) { engine_->SaveAll(done); }).ok());
        tiers_->Sweep();
      }
      SubmittedTurn again = Turn(spilled + 6000, whole, 24);
      again.request.owner = "conv_" + std::to_string(spilled);  // a new owner: no slot holds it
      again.request.tenant = again.request.owner;
      const Answer restored = Run(again);
      EXPECT_EQ(restored.end.report.source, source);
      EXPECT_EQ(restored.end.report.tokens_reused, static_cast<int64_t>(first.size() + said.ids.size()) - 1);
      ExpectSame(restored, Run(Turn(kept, whole, 24)), true, "spilled " + std::to_string(seed));
      for (const TimelineId timeline : {kept, spilled + 6000}) engine_->Close(timeline);
    }
  }
}

TEST_P(DeviceEngineTest, WrappedRingEqualsOneShot) {
  Start({.slots = 2, .step_tokens = 64});
  for (uint32_t seed = 1; seed <= 4; ++seed) {
    std::vector<TokenId> tokens = Ids(40, seed);
    Answer last;
    for (int turn = 0; turn < 8; ++turn) {  // about 40 + 8 * 54 tokens through a window of 48
      last = Run(Turn(seed, tokens, 32, kSmallWindow));
      if (turn == 7) break;
      tokens = Joined(Joined(tokens, last.ids), Ids(22, 10 * seed + turn));
    }
    EXPECT_GT(last.end.report.tokens_evicted, 300);
    const Answer once = Run(Turn(1000 + seed, tokens, 32, kSmallWindow));
    ExpectSame(last, once, false, "wrapped " + std::to_string(seed));
  }
  ReportParted();
}

// An unused ring accepts a prompt as large as its row count in one step, more than its window and spare rows.
TEST_P(DeviceEngineTest, PromptInOneStepEqualsChunkedPrompt) {
  constexpr RingWindow kLong{4, 640, Eviction::kTurn};  // two layers reach back over the whole prompt
  std::vector<Answer> answers;
  memory_len_ = kLong.memory_len;
  for (const int64_t chunk : {64, 1024}) {
    chunk_ = chunk;
    Start({.slots = 1, .step_tokens = chunk});
    const std::optional<size_t> free = model_->memory().free_bytes();
    for (const RingWindow& window : {kLong, kSmallWindow}) {
      for (uint32_t seed = 1; seed <= 3; ++seed) {
        answers.push_back(Run(Turn(seed, Ids(560 + 200 * seed, seed), 24, window)));
        engine_->Close(seed);
      }
    }
    if (free) {
      const auto caches = static_cast<size_t>(engine_->options().kv_bytes);
      EXPECT_GE(*model_->memory().free_bytes() + caches, *free) << "steps take no memory but their caches'";
    }
  }
  for (size_t i = 0; i < answers.size() / 2; ++i) {
    ExpectSame(answers[i + answers.size() / 2], answers[i], false, "prompt " + std::to_string(i));
  }
  ReportParted();
}

TEST_P(DeviceEngineTest, RewoundAndForkedConversationsEqualNewOnes) {
  Start({.slots = 4}, /*tiers=*/true);
  const std::vector<TokenId> first = Ids(70, 1);
  const Answer said = Run(Turn(1, first, 20));
  // Rewound into the question, then continued differently.
  std::vector<TokenId> other = first;
  other.resize(50);
  other = Joined(other, Ids(13, 2));
  const Answer rewound = Run(Turn(1, other, 24));
  EXPECT_EQ(rewound.end.report.tokens_reused, 50);
  ExpectSame(rewound, Run(Turn(100, other, 24)), false, "rewound");
  // Forked: both continue from the same tokens.
  const std::vector<TokenId> whole = Joined(Joined(other, rewound.ids), Ids(9, 3));
  engine_->Fork(1, 2, "conv_1", "conv_2");
  const Answer forked = Run(Turn(2, whole, 24));
  EXPECT_EQ(forked.end.report.source, CacheSource::kHost);
  ExpectSame(forked, Run(Turn(1, whole, 24)), true, "forked");
}

TEST_P(DeviceEngineTest, AnswersWithDraftsEqualThoseWithout) {
  constexpr TimelineId kTurns = 6;
  const ManualClock clock;  // does not move, so drafts always pay unless none are accepted
  clock_ = &clock;
  std::vector<Answer> plain;
  int64_t accepted = 0;
  for (const Speculation speculation : {Speculation::kOff, Speculation::kNgram}) {
    Start({.slots = kTurns, .speculation = speculation});
    std::vector<SubmittedTurn> turns;
    for (TimelineId i = 1; i <= kTurns; ++i) {
      turns.push_back(Turn(i, ScatteredIds(20 + 9 * i, 4, static_cast<uint32_t>(i)), 100));
      SamplingParams& sampling = turns.back().request.sampling;
      if (fixed() && i % 2 == 0) sampling.temperature = 0.5, sampling.seed = i;
      if (i % 3 == 0) sampling.frequency_penalty = 0.01;  // sampled one after the other
    }
    for (size_t i = 0; i < turns.size(); ++i) {
      // The first half one at a time, the others at once.
      ASSERT_TRUE(engine_->Submit(turns[i].request).ok());
      if (i < kTurns / 2) turns[i].sink->Wait();
    }
    for (size_t i = 0; i < turns.size(); ++i) {
      const Answer answer = Wait(turns[i]);
      accepted += answer.end.drafts.accepted;
      if (speculation == Speculation::kOff)
        plain.push_back(answer);
      else
        ExpectSame(answer, plain[i], false, "turn " + std::to_string(i + 1));
    }
  }
  engine_.reset();  // before the clock
  if (model_->samples_rows()) {
    EXPECT_GT(accepted, 0);
  }
  ReportParted();
}

TEST_P(DeviceEngineTest, NanLogitsEndOnlyTheirTurn) {
  const KvCache* victim = nullptr;
  int64_t steps = 0;
  std::latch submitted(1);  // every turn, before the first step
  Start({.slots = 3}, false, [&](std::span<const StepPart> parts) {
    submitted.wait();
    if (parts.size() < 3 || ++steps != 12) return;
    victim = parts[1].cache;
    network_->FillWithNaN(*victim);
  });
  std::vector<SubmittedTurn> turns;
  for (TimelineId i = 1; i <= 3; ++i) turns.push_back(Turn(i, Ids(20, i), 40));
  for (const SubmittedTurn& turn : turns) EXPECT_TRUE(engine_->Submit(turn.request).ok());
  submitted.count_down();
  int failed = 0;
  std::vector<int> sound;
  for (int i = 0; i < 3; ++i) {
    const TurnEnd end = turns[static_cast<size_t>(i)].sink->Wait();
    if (end.reason == FinishReason::kError)
      ++failed;
    else
      sound.push_back(i);
  }
  EXPECT_EQ(failed, 1);
  EXPECT_TRUE(engine_->healthy());
  ASSERT_EQ(sound.size(), 2u);
  for (const int i : sound) {
    const auto timeline = static_cast<TimelineId>(i + 1);
    EXPECT_EQ(turns[static_cast<size_t>(i)].sink->ids().size(), 40u);
    engine_->Close(timeline);
    const Answer got{turns[static_cast<size_t>(i)].sink->ids(), {}, {}};
    ExpectSame(got, Run(Turn(100 + timeline, Ids(20, static_cast<uint32_t>(timeline)), 40)), false, "beside the NaN");
  }
}

// Visitors take turns on the slots left by others that decode continuously. Before each of a visitor's steps its rows
// must be those left by its last step. A visitor's step ends with its number and one more token.
class DeviceSpillTest : public DeviceEngineTest {
 protected:
  ChunkHash RowsOf(const KvCache& cache) {
    KvCache copy = cache;  // capturing changes the ring's state, which belongs to the engine
    const std::vector<int32_t> tokens(static_cast<size_t>(cache.ring().next()));
    Snapshot snapshot = Snapshot::Capture(copy, model_->memory(), {}, tokens, 0);
    snapshot.Seal();
    std::string hashes;
    for (const SnapshotChunk& chunk : snapshot.chunks()) {
      hashes.append(reinterpret_cast<const char*>(&*chunk.hash), sizeof(ChunkHash));
    }
    return HashOf(std::as_bytes(std::span(hashes)));
  }
  void Look(std::span<const StepPart> parts, bool before) {
    for (const StepPart& part : parts) {
      const size_t n = part.tokens.size();
      if (n < 2 || part.logits != StepPart::Logits::kLast) continue;
      auto& last = rows_[part.tokens[n - 2]];
      if (!before) {
        last = {part.cache->ring().next(), RowsOf(*part.cache)};
      } else if (part.cache->ring().next() == last.first && last.first > 0) {
        ++same_;
        if (RowsOf(*part.cache) <=> last.second != 0) --same_, ++different_;
      }
    }
  }
  std::map<TokenId, std::pair<int64_t, ChunkHash>> rows_;  // by visitor: number and hash of its rows
  std::atomic<int64_t> same_{0}, different_{0};
};
INSTANTIATE_TEST_SUITE_P(All, DeviceSpillTest, ::testing::ValuesIn(testing::EngineDeviceNames()),
                         [](const auto& info) { return info.param; });

TEST_P(DeviceSpillTest, RestoresEveryByteDuringDecoding) {
  const char* wanted = std::getenv("RINGSIDE_SPILL_CYCLES");
  const int64_t cycles = wanted != nullptr ? std::atoi(wanted) : 96;
  constexpr TimelineId kDecoding = 32, kSlots = 40, kVisitors = 24, kAtOnce = 6;  // 38 of 40 slots have a turn
  Start(
      {.slots = kSlots}, /*tiers=*/true, [&](auto parts) { Look(parts, true); },
      [&](auto parts) { Look(parts, false); });
  std::vector<SubmittedTurn> decoding;
  for (TimelineId i = 1; i <= kDecoding; ++i) {
    decoding.push_back(Turn(1000 + i, Ids(20, i), -1));
    ASSERT_TRUE(engine_->Submit(decoding.back().request).ok());
  }
  std::vector<std::vector<TokenId>> said;
  for (uint32_t v = 0; v < kVisitors; ++v) said.push_back(Ids(100 + v, 100 + v));
  // A cache still in flight when its conversation continues is recomputed, which tests nothing.
  const int64_t enough = cycles * 9 / 10;
  for (int64_t done = 0; done < cycles + int64_t{kVisitors} || (same_ < enough && done < 4 * cycles); done += kAtOnce) {
    std::vector<SubmittedTurn> turns;
    for (size_t k = 0; k < kAtOnce; ++k) {
      const size_t v = static_cast<size_t>(done + static_cast<int64_t>(k)) % kVisitors;
      said[v].insert(said[v].end(), {static_cast<TokenId>(v), 7});
      turns.push_back(Turn(1 + v, said[v], 1));
      ASSERT_TRUE(engine_->Submit(turns.back().request).ok());
    }
    for (size_t k = 0; k < kAtOnce; ++k) {
      const size_t v = static_cast<size_t>(done + static_cast<int64_t>(k)) % kVisitors;
      said[v] = Joined(said[v], Wait(turns[k]).ids);
    }
  }
  for (const SubmittedTurn& turn : decoding) {
    EXPECT_GT(turn.sink->ids().size(), 0u);
    engine_->Cancel(turn.request.turn);
  }
  for (const SubmittedTurn& turn : decoding) turn.sink->Wait();
  const EngineStats stats = engine_->stats();
  engine_.reset();
  std::printf("%s: %lld turns found every byte again, %lld did not; %llu restores, %llu of them from memory\n",
              GetParam().c_str(), static_cast<long long>(same_.load()), static_cast<long long>(different_.load()),
              static_cast<unsigned long long>(stats.restores_host + stats.restores_disk),
              static_cast<unsigned long long>(stats.restores_host));
  EXPECT_EQ(different_, 0);
  EXPECT_GE(same_, enough);
  EXPECT_GE(static_cast<int64_t>(stats.restores_host + stats.restores_disk), cycles * 8 / 10);
}

}  // namespace
}  // namespace ringside
