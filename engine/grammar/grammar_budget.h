// The budget of steps and memory for the compilation of one request's grammars. Every parser and compiler of grammars
// charges the request's only budget before it works or allocates. Steps are counted, not timed, so a request always
// gets the same verdict. THREAD: one at a time.
#pragma once

#include <cstdint>
#include <functional>

#include "base/limits.h"
#include "base/status.h"

namespace ringside {

class GrammarBudget {
 public:
  struct Limits {
    int64_t steps = limits::kMaxGrammarSteps;
    int64_t bytes = limits::kMaxGrammarBuildBytes;
  };
  GrammarBudget() : GrammarBudget(Limits{}) {}
  /// `abandoned`, if any, is polled every few milliseconds of work; true ends the compilation (kCancelled).
  explicit GrammarBudget(const Limits& limits, std::function<bool()> abandoned = nullptr)
      : limits_(limits), abandoned_(std::move(abandoned)), steps_left_(limits.steps), ask_at_(limits.steps) {}
  GrammarBudget(const GrammarBudget&) = delete;
  GrammarBudget& operator=(const GrammarBudget&) = delete;

  /// Charges steps; one is about a visit of one state. False: the budget is exhausted, for good; status() is the error.
  [[nodiscard]] bool Spend(int64_t steps) {
    steps_left_ -= steps;
    return steps_left_ > ask_at_ || Check();
  }
  /// Charges memory before allocation. False: exhausted, do not allocate.
  [[nodiscard]] bool Hold(int64_t bytes) {
    held_ += bytes;
    return held_ <= limits_.bytes || Check();
  }
  void Release(int64_t bytes) { held_ -= bytes; }
  /// Exhausts the budget with status `why`.
  void Refuse(Status why);

  bool ok() const { return status_.ok(); }
  const Status& status() const { return status_; }
  int64_t steps_spent() const { return limits_.steps - steps_left_; }
  int64_t bytes_held() const { return held_; }

 private:
  bool Check();

  const Limits limits_;
  const std::function<bool()> abandoned_;
  int64_t steps_left_, ask_at_;
  int64_t held_ = 0;
  Status status_;
};

/// Memory charged to a budget, released on destruction.
class BudgetHold {
 public:
  explicit BudgetHold(GrammarBudget& budget) : budget_(budget) {}
  ~BudgetHold() { budget_.Release(bytes_); }
  BudgetHold(const BudgetHold&) = delete;
  BudgetHold& operator=(const BudgetHold&) = delete;
  [[nodiscard]] bool Add(int64_t bytes) {
    bytes_ += bytes;
    return budget_.Hold(bytes);
  }

 private:
  GrammarBudget& budget_;
  int64_t bytes_ = 0;
};

}  // namespace ringside
