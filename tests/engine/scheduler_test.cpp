#include "engine/scheduler.h"

#include <gtest/gtest.h>

#include <array>
#include <numeric>
#include <random>

namespace ringside {
namespace {

using Take = std::vector<int64_t>;

Take Plan(const std::vector<StepTurn>& turns, const StepLimits& limits, std::vector<double> served = {0}) {
  return PlanStep(turns, std::move(served), limits);
}

TEST(Scheduler, DecodesAlwaysGetARow) {
  EXPECT_EQ(Plan({{1}, {1}, {500}, {1}}, {.prompt_rows = 64, .chunk = 128}), (Take{1, 1, 64, 1}));
}

TEST(Scheduler, DraftsGetRowsThatNoPromptNeeds) {
  const StepTurn drafting{.remaining = 1, .drafts = 6}, idle{.drafts = 6}, prompt{.remaining = 300};
  const StepLimits limits{.draft_rows = 8};
  EXPECT_EQ(PlanStep(std::vector{drafting, idle, drafting, drafting}, {0}, limits), (Take{7, 0, 3, 1}));
  EXPECT_EQ(PlanStep(std::vector{drafting, drafting}, {0}, {}), (Take{1, 1}));
  EXPECT_EQ(PlanStep(std::vector{drafting, prompt}, {0}, limits)[0], 1);
}

// The first prompt of a step gets its indivisible chunk whatever the limit, others only if it fits; so none starves.
TEST(Scheduler, IndivisibleChunksAreTakenAsAWhole) {
  const StepTurn image{.remaining = 500, .urgency = 3, .least = 256}, text{.remaining = 40, .urgency = 2};
  const StepLimits limits{.prompt_rows = 64, .chunk = 256, .tile = 48};
  EXPECT_EQ(Plan({image, text}, limits), (Take{256, 0}));
  EXPECT_EQ(Plan({text, image, image}, {.prompt_rows = 300, .chunk = 256}), (Take{40, 256, 0}));
  StepTurn later = image;
  later.urgency = 1;
  EXPECT_EQ(Plan({text, later}, limits), (Take{40, 0}));
  EXPECT_EQ(Plan({text, later}, {.prompt_rows = 300, .chunk = 256}), (Take{40, 256}));
  // Rounding to tiles does not shorten it.
  EXPECT_EQ(Plan({text, later}, {.prompt_rows = 300, .chunk = 256, .tile = 128}), (Take{0, 256}));
}

TEST(Scheduler, LonePromptTakesItsWholeChunk) {
  EXPECT_EQ(Plan({{500}}, {.prompt_rows = 256, .chunk = 128}), (Take{128}));
}

TEST(Scheduler, PrefillsPromptsOneAtATime) {
  EXPECT_EQ(Plan({{500, 2}, {10, 1}, {500, 3}}, {.prompt_rows = 512, .chunk = 500}), (Take{12, 0, 500}));
  EXPECT_EQ(Plan({{500, 2}, {10, 1}, {500, 3}}, {.prompt_rows = 1100, .chunk = 500}), (Take{500, 10, 500}));
}

TEST(Scheduler, AccountsWithoutWorkGetNothing) {
  EXPECT_EQ(Plan({{0}, {3}}, {.prompt_rows = 256, .chunk = 128}), (Take{0, 3}));
}

TEST(Scheduler, ShortPromptsOvertakeLongOnesUnderAnyOverload) {
  constexpr double kShortNs = 2e6, kLongNs = 300e6;
  for (const int64_t overload : {2, 8, 40}) {
    const auto long_waited = static_cast<int64_t>(kLongNs) * overload;
    EXPECT_GT(PromptUrgency(static_cast<int64_t>(kShortNs) * overload + 1, kShortNs),
              PromptUrgency(long_waited, kLongNs))
        << "the short prompt has waited for the same multiple of its time";
    EXPECT_LT(PromptUrgency(0, kShortNs), PromptUrgency(long_waited, kLongNs));
  }
  EXPECT_EQ(PromptUrgency(1'000'000, 1e3), PromptUrgency(1'000'000, 1e6)) << "very short prompts count as equal";
}

TEST(Scheduler, APromptThatHasWaitedLongIsOvertakenByNone) {
  EXPECT_GT(PromptUrgency(kPatienceNs, 1e12), PromptUrgency(kPatienceNs - 1, 0));
  EXPECT_GT(PromptUrgency(kPatienceNs + 1, 1e12), PromptUrgency(kPatienceNs, 0)) << "among them the oldest";
}

// Short prompts of one tenant arrive without end and fill the device; a long prompt of the same tenant still ends.
TEST(Scheduler, ALongPromptDoesNotStarveBehindShortOnes) {
  constexpr int64_t kStepNs = 50'000'000;
  constexpr double kRowNs = 25e3;
  struct Prompt {
    StepTurn turn;
    int64_t at_ns, rows;
  };
  std::vector<Prompt> prompts{{{.remaining = 16'000}, 0, 16'000}};
  int64_t now = 0;
  for (; prompts[0].turn.remaining > 0 && now < 3 * kPatienceNs; now += kStepNs) {
    for (int i = 0; i < 20; ++i) prompts.push_back({{.remaining = 100}, now, 100});
    std::vector<StepTurn> turns;
    for (Prompt& prompt : prompts) {
      prompt.turn.urgency = PromptUrgency(now - prompt.at_ns, static_cast<double>(prompt.rows) * kRowNs);
      turns.push_back(prompt.turn);
    }
    const Take take = Plan(turns, {.prompt_rows = 2000, .chunk = 2000});
    for (size_t i = 0; i < take.size(); ++i) prompts[i].turn.remaining -= take[i];
    std::erase_if(prompts, [&](const Prompt& p) { return &p != &prompts[0] && p.turn.remaining == 0; });
  }
  EXPECT_EQ(prompts[0].turn.remaining, 0);
  EXPECT_LE(now, kPatienceNs + 20 * kStepNs);
}

TEST(Scheduler, LeastServedComesFirst) {
  const std::vector<StepTurn> turns = {{4000, 3, 0}, {4000, 2, 0}, {64, 1, 1}};
  EXPECT_EQ(Plan(turns, {.prompt_rows = 2048, .chunk = 2048}, {10'000, 0}), (Take{1984, 0, 64}));
  // Approximately equal values count as equal.
  EXPECT_EQ(Plan(turns, {.prompt_rows = 2048, .chunk = 2048}, {100, 0}), (Take{2048, 0, 0}));
}

TEST(Scheduler, PromptsOfAnAccountAheadFillOnlyAShortStep) {
  const StepLimits limits{.prompt_rows = 2048, .chunk = 2048, .ahead_work = 100};
  const std::vector<double> ahead = {0, kServedMargin}, equal = {0, kServedMargin - 1};
  EXPECT_EQ(Plan({{1, 1, 0}, {4000, 0, 1}}, limits, ahead), (Take{1, 100}));
  EXPECT_EQ(Plan({{1, 1, 0}, {4000, 0, 1}}, limits, equal), (Take{1, 2048}));
  EXPECT_EQ(Plan({{0, 1, 0}, {4000, 0, 1}}, limits, ahead), (Take{0, 2048})) << "the other account has no turn in it";
  // The other account's own prompt may fill the step.
  EXPECT_EQ(Plan({{60, 1, 0}, {4000, 0, 1}}, limits, ahead), (Take{60, 40}));
  EXPECT_EQ(Plan({{300, 1, 0}, {4000, 0, 1}}, limits, ahead), (Take{300, 0}));
  EXPECT_EQ(Plan({{4000, 1, 0}, {4000, 0, 1}}, limits, ahead), (Take{2048, 0}));
}

TEST(Scheduler, ManyPromptsDelayAnothersShortPromptByAtMostTwoSteps) {
  for (const int64_t length : {300, 3000, 30'000}) {
    std::vector<StepTurn> turns(64, StepTurn{length, 0, 0});
    turns.push_back({64, -1, 1});
    std::vector<double> served = {0, 0};  // both have just arrived
    int steps = 0;
    while (turns.back().remaining > 0) {
      const Take take = PlanStep(turns, served, {.prompt_rows = 2048, .chunk = 2048});
      for (size_t i = 0; i < turns.size(); ++i) {
        turns[i].remaining -= take[i];
        served[turns[i].tenant] += static_cast<double>(take[i]);
      }
      ++steps;
    }
    EXPECT_LE(steps, 2) << length;
  }
}

TEST(Scheduler, PartialTilesAreDeferred) {
  const StepLimits limits{.prompt_rows = 2048, .chunk = 2048, .tile = 256};
  std::vector<StepTurn> turns(8, StepTurn{1});
  turns.push_back({1024});
  EXPECT_EQ(Plan(turns, limits).back(), 1016);
  turns.back().remaining = 1200;  // 184 more: not worth another step
  EXPECT_EQ(Plan(turns, limits).back(), 1016);
  turns.back().remaining = 300;
  EXPECT_EQ(Plan(turns, limits).back(), 248);
  turns.back().remaining = 200;
  EXPECT_EQ(Plan(turns, limits).back(), 200);
  // Never reduces a prompt to nothing.
  turns.assign(256, StepTurn{1});
  turns.push_back({100});
  EXPECT_EQ(Plan(turns, limits).back(), 100);
}

TEST(Scheduler, APromptsEndIsNotTrimmedIfStepsAreLong) {
  StepLimits limits{.prompt_rows = 2048, .chunk = 2048, .tile = 256, .step_work = 600};
  std::vector<StepTurn> turns(8, StepTurn{1});
  turns.push_back({850});
  EXPECT_EQ(Plan(turns, limits).back(), 850) << "82 rows are not worth a step of their own";
  limits.step_work = 300;
  EXPECT_EQ(Plan(turns, limits).back(), 760);
}

TEST(Scheduler, TheTileOfAPromptsEndIsFilledWithTheNextPrompt) {
  const StepLimits limits{.prompt_rows = 2048, .chunk = 2048, .tile = 256, .prompt_work = 1000, .yield_work = 600};
  const StepTurn first{.remaining = 850, .urgency = 2}, next{.remaining = 5000, .urgency = 1};
  EXPECT_EQ(Plan({first, next}, limits), (Take{850, 174}));
}

TEST(Scheduler, PromptsThatGoOnYield) {
  const StepLimits limits{.prompt_rows = 2048, .chunk = 2048, .prompt_work = 1000, .yield_work = 600};
  EXPECT_EQ(Plan({{5000}}, limits), (Take{600}));
  EXPECT_EQ(Plan({{900}}, limits), (Take{900})) << "its end fits";
  EXPECT_EQ(Plan({{5000, 2}, {300, 1}}, limits), (Take{600, 300}));
  EXPECT_EQ(Plan({{5000, 2}, {500, 1}}, limits), (Take{600, 0}));
}

TEST(Scheduler, RowsWithMoreWorkAreFewer) {
  const StepLimits limits{.prompt_rows = 2048, .chunk = 2048, .prompt_work = 900};
  EXPECT_EQ(Plan({{.remaining = 5000, .work = 1.5}}, limits), (Take{600}));
}

TEST(Scheduler, AssignsSlotsToAccountsRoundRobin) {
  EXPECT_EQ(SlotOrder(std::vector<size_t>{0, 0, 0, 1}, {0, 0}, {0, 0}), (std::vector<size_t>{0, 3, 1, 2}));
  EXPECT_EQ(SlotOrder(std::vector<size_t>{0, 0, 0, 1}, {9999, 0}, {0, 0}), (std::vector<size_t>{3, 0, 1, 2}));
  EXPECT_EQ(SlotOrder(std::vector<size_t>{0, 0, 0}, {0}, {7}), (std::vector<size_t>{0, 1, 2}));
  // A preempted turn is not scheduled before one that has never run.
  EXPECT_EQ(SlotOrder(std::vector<size_t>{0, 1, 2}, {150, 140, 0}, {0, 0, 0}), (std::vector<size_t>{2, 1, 0}));
}

TEST(Scheduler, SlotsGoToTheAccountWithTheFewestRunningTurns) {
  EXPECT_EQ(SlotOrder(std::vector<size_t>{0, 0, 1, 1}, {0, 9999}, {2, 0}), (std::vector<size_t>{2, 3, 0, 1}));
}

std::vector<SlotHolder> Holders(const std::vector<int64_t>& of_accounts, int64_t steps) {
  std::vector<SlotHolder> holders;
  for (size_t tenant = 0; tenant < of_accounts.size(); ++tenant) {
    holders.insert(holders.end(), static_cast<size_t>(of_accounts[tenant]), {.tenant = tenant, .steps = steps});
  }
  return holders;
}

// The victim for a turn that has waited since a preemption, or for a new one.
std::optional<size_t> Pick(const std::vector<SlotHolder>& holders, size_t tenant, bool is_new = false) {
  const std::optional<Victim> victim = PickVictim(holders, {tenant, is_new});
  return victim ? std::optional(victim->holder) : std::nullopt;
}

TEST(Scheduler, AccountAboveItsShareYieldsASlotImmediately) {
  for (int64_t held = 0; held <= 9; ++held) {
    const auto victim = Pick(Holders({held, 8 - std::min<int64_t>(held, 8)}, 0), 1);
    EXPECT_EQ(victim.has_value(), held >= 8 - std::min<int64_t>(held, 8) + 2) << held;
  }
  // Among three tenants, the one with the most turns.
  const std::vector<SlotHolder> holders = Holders({2, 3, 0}, 0);
  EXPECT_EQ(holders[*Pick(holders, 2)].tenant, 1u);
}

TEST(Scheduler, PreemptsTheAccountsCheapestTurn) {
  std::vector<SlotHolder> holders = Holders({4}, kQuantumSteps);
  for (size_t i = 0; i < holders.size(); ++i) holders[i].rows = 100 - static_cast<int64_t>(i);
  EXPECT_EQ(Pick(holders, 1), 3u);
  holders[3].is_preemptable = false;  // beams
  EXPECT_EQ(Pick(holders, 1), 2u);
  holders[2].steps = 0;  // it has just got its slot
  EXPECT_EQ(Pick(holders, 1), 1u);
  holders[1].is_recoverable = false;  // it would be computed again
  EXPECT_EQ(Pick(holders, 1), 0u);
  for (SlotHolder& holder : holders) holder.is_recoverable = false;
  EXPECT_EQ(Pick(holders, 1), 1u) << "nothing can be saved: the cheapest after its quantum";
  for (SlotHolder& holder : holders) holder.steps = 0;
  EXPECT_EQ(Pick(holders, 1), std::nullopt);
}

TEST(Scheduler, AccountsRotateByQuantaIfSlotsAreFew) {
  std::vector<SlotHolder> holders = Holders({1, 1, 1, 0}, kQuantumSteps - 1);
  EXPECT_EQ(Pick(holders, 3), std::nullopt);
  for (size_t i = 0; i < holders.size(); ++i) holders[i].steps = kQuantumSteps + static_cast<int64_t>(i % 2);
  EXPECT_EQ(Pick(holders, 3), 1u) << "who ran longest";
  EXPECT_EQ(Pick(holders, 0), std::nullopt) << "who has a slot takes nobody else's only one";
}

TEST(Scheduler, FarUnderservedAccountDoesNotWaitForAQuantum) {
  std::vector<SlotHolder> holders = Holders({1, 1, 1, 0}, 0);
  holders[1].ahead = kServedMargin;
  EXPECT_EQ(Pick(holders, 3), 1u);
  EXPECT_EQ(Pick(holders, 0), std::nullopt) << "it has a slot";
  holders[1].is_recoverable = false;
  EXPECT_EQ(Pick(holders, 3), std::nullopt) << "too much would be computed again";
  holders[2].ahead = kServedMargin;
  EXPECT_EQ(Pick(holders, 3), 2u);
  holders[2].is_preemptable = false;
  EXPECT_EQ(Pick(holders, 3), std::nullopt);
}

TEST(Scheduler, ANewTurnWaitsForNoQuantumOfAnAccountThatWasServedAboutTheSame) {
  std::vector<SlotHolder> holders = Holders({1, 1, 1, 0}, 1);
  holders[1].steps = 2;
  for (SlotHolder& holder : holders) holder.ahead = 1 - kServedMargin;
  EXPECT_EQ(Pick(holders, 3), std::nullopt);
  EXPECT_EQ(Pick(holders, 3, /*is_new=*/true), 1u) << "who ran longest";
  EXPECT_EQ(Pick(holders, 0, /*is_new=*/true), std::nullopt) << "it has a slot";
  holders[1].has_run = false;  // it waits for its first token itself
  EXPECT_NE(Pick(holders, 3, /*is_new=*/true), 1u);
  for (SlotHolder& holder : holders) holder.ahead = -kServedMargin;
  EXPECT_EQ(Pick(holders, 3, /*is_new=*/true), std::nullopt) << "its tenant has been served more than they";
}

TEST(Scheduler, ANewTurnPaysForWhatIsComputedAgain) {
  std::vector<SlotHolder> holders = Holders({1, 1, 0}, 1);
  for (SlotHolder& holder : holders) holder.is_recoverable = false;
  holders[0].rows = 3000;
  holders[1].rows = 2000;
  for (SlotHolder& holder : holders) holder.ahead = 2001 - kServedMargin;
  EXPECT_EQ(PickVictim(holders, {2, true}), (Victim{1, 2000}));
  EXPECT_EQ(PickVictim(holders, {2, false}), std::nullopt) << "it has had its first token";
  holders[1].ahead = 2000 - kServedMargin;
  EXPECT_EQ(PickVictim(holders, {2, true}), std::nullopt) << "more than it may owe";
  holders[1].steps = kQuantumSteps;
  EXPECT_EQ(PickVictim(holders, {2, true}), (Victim{1, 0})) << "its quantum is over";
  holders[0].is_recoverable = true;
  holders[0].ahead = 0;
  EXPECT_EQ(PickVictim(holders, {2, true}), (Victim{0, 0})) << "nothing of it is computed again";
}

TEST(Scheduler, NoMoreIsComputedAgainThanOthersAreServed) {
  constexpr int64_t kRows = 500, kBetween = 40;
  VirtualTokenCounter served;
  served.Enter("stays");
  int64_t repeated = 0, computed = 0;
  for (int visit = 0; visit < 1000; ++visit) {
    served.Add("stays", kBetween);
    computed += kBetween;
    served.Enter("visits");
    const SlotHolder holder{
        .steps = 1, .rows = kRows, .is_recoverable = false, .ahead = served.Of("stays") - served.Of("visits")};
    if (const auto victim = PickVictim(std::array{holder}, {1, true})) {
      served.Charge("stays", "visits", static_cast<double>(victim->charge));
      served.Add("stays", kRows);
      repeated += kRows;
    }
    served.Leave("visits");
  }
  EXPECT_GT(repeated, computed / 2);
  EXPECT_LE(repeated, computed + static_cast<int64_t>(3 * kServedMargin));
}

TEST(Scheduler, AnAccountAboveItsShareGivesACacheThatNothingKeepsToANewTurn) {
  std::vector<SlotHolder> holders = Holders({2, 0}, 0);
  for (SlotHolder& holder : holders) holder = {.rows = 100'000, .has_run = false, .is_recoverable = false};
  holders[1].rows = 10;
  EXPECT_EQ(PickVictim(holders, {1, true}), (Victim{1, 0}));
  EXPECT_EQ(PickVictim(holders, {1, false}), std::nullopt);
}

constexpr double kBelow = 2 * kServedMargin;

TEST(Scheduler, ReturningAccountKeepsItsDebt) {
  VirtualTokenCounter served;
  served.Enter("a");
  served.Enter("b");
  EXPECT_EQ(served.Of("a"), served.Of("b"));
  served.Add("a", 10'000);
  served.Add("b", 9'000);
  const double of_a = served.Of("a"), of_b = served.Of("b");
  served.Enter("new");
  EXPECT_EQ(served.Of("new"), of_b - kBelow);
  served.Leave("new");
  served.Leave("a");
  served.Add("b", 500);
  served.Enter("new");
  EXPECT_EQ(served.Of("new"), of_b + 500 - kBelow);
  served.Enter("a");
  EXPECT_EQ(served.Of("a"), of_a);
  for (const char* name : {"a", "b", "new"}) served.Leave(name);
  served.Enter("later");  // alone, it starts at the same counter
  EXPECT_GE(served.Of("later"), of_b + 500 - kBelow);
}

TEST(Scheduler, NewPromptsKeepTheirOrder) {
  VirtualTokenCounter served;
  served.Enter("stays");
  served.Add("stays", 480);
  for (const char* name : {"first", "second", "third"}) {
    served.Enter(name);
    EXPECT_EQ(served.Of(name), served.Of("first"));
    EXPECT_LE(served.Of(name), served.Of("stays") - 480) << "also where little was served to anybody";
  }
}

TEST(Scheduler, ManyShortTurnsGetNoMoreThanOneLongTurn) {
  VirtualTokenCounter served;
  served.Enter("stays");
  served.Add("stays", 100'000);
  const double of_stays = served.Of("stays");
  for (int visit = 0; visit < 100; ++visit) {
    served.Enter("visits");
    EXPECT_GE(served.Of("visits"), of_stays - kBelow + 100 * visit);
    served.Add("visits", 100);
    served.Leave("visits");
  }
}

TEST(Scheduler, SequentialTurnsDoNotLowerTheAccount) {
  VirtualTokenCounter served;
  served.Enter("heavy");
  served.Add("heavy", 100'000);
  const double of_heavy = served.Of("heavy");
  served.Leave("heavy");
  for (int visit = 0; visit < 100; ++visit) {
    const std::string name = "visitor " + std::to_string(visit);
    served.Enter(name);
    EXPECT_EQ(served.Of(name), of_heavy - kBelow);
    served.Add(name, 10);
    served.Leave(name);
  }
  served.Enter("heavy");
  EXPECT_EQ(served.Of("heavy"), of_heavy);
}

TEST(Scheduler, RandomPlansKeepLimitsWithoutStarvation) {
  std::mt19937 random(7);
  for (int round = 0; round < 500; ++round) {
    const StepLimits limits{.prompt_rows = 1 + static_cast<int64_t>(random() % 300),
                            .chunk = 2 + static_cast<int64_t>(random() % 200),
                            .tile = round % 2 == 0 ? 1 : 32};
    const size_t tenants = 1 + random() % 5;
    std::vector<double> served(tenants, 0);
    std::vector<StepTurn> turns(1 + random() % 40);
    for (StepTurn& turn : turns) {
      turn = {random() % 3 == 0 ? 1 : static_cast<int64_t>(random() % 700), static_cast<double>(random() % 1000),
              random() % tenants};
    }
    int64_t work = 0;
    for (const StepTurn& turn : turns) work += turn.remaining > 1 ? turn.remaining : 0;
    for (int64_t steps = 0; work > 0; ++steps) {
      ASSERT_LT(steps, 40 * 700);
      const Take take = PlanStep(turns, served, limits);
      int64_t prompts = 0, wanted = 0;
      for (size_t i = 0; i < take.size(); ++i) {
        ASSERT_GE(take[i], 0);
        ASSERT_LE(take[i], turns[i].remaining);
        if (turns[i].remaining == 1) {
          ASSERT_EQ(take[i], 1);
          continue;
        }
        ASSERT_LE(take[i], limits.chunk);
        prompts += take[i];
        wanted += std::min(turns[i].remaining, limits.chunk);
        served[turns[i].tenant] += static_cast<double>(take[i]);
        turns[i].remaining -= take[i];
        if (turns[i].remaining == 1) turns[i].remaining = 0;  // decodes from now on, elsewhere
      }
      ASSERT_GT(prompts, 0);
      ASSERT_LE(prompts, limits.prompt_rows);
      if (limits.tile == 1) {
        ASSERT_EQ(prompts, std::min(wanted, limits.prompt_rows));
      }
      ASSERT_GE(4 * prompts, 3 * std::min(wanted, limits.prompt_rows));
      work = 0;
      for (const StepTurn& turn : turns) work += turn.remaining > 1 ? turn.remaining : 0;
    }
  }
}

}  // namespace
}  // namespace ringside
