// What each step computes, as a pure function: every decode row first, then rows of prompts. Nothing here knows of
// caches, models or threads.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace ringside {

/// A running turn as the plan of a step sees it.
struct StepTurn {
  int64_t remaining = 0;    // tokens to compute before its next sample; 1 = it decodes, 0 = it has no part in this step
  int64_t deadline_ns = 0;  // of two prompts of an account the one with the earlier deadline comes first
  size_t account = 0;       // whose it is: an index of `served`
};

struct StepLimits {
  int64_t prompt_rows = 256;  // of all prompts
  int64_t chunk = 128;        // of one prompt
  int64_t tile = 1;           // a device's products take so many rows at once: a few beyond a multiple cost as many
};

/// How many tokens of each turn to compute (0 = none). Turns that decode always get their row. The rows left go to
/// prompts, a chunk at a time: to the account that has been served the fewest tokens so far, these counted (a virtual
/// token counter: Sheng et al. 2024, "Fairness in Serving Large Language Models"), and of it to the prompt with the
/// earliest deadline. So prompts are computed one after the other, not all at once and all late. What is beyond
/// whole tiles waits for the next step if it is less than a quarter of the prompts' rows; otherwise nothing is left
/// unused while a prompt could take it.
std::vector<int64_t> PlanStep(std::span<const StepTurn> turns, std::vector<double> served, const StepLimits& limits);

/// The order in which turns that wait, oldest first, get slots: each goes to the account with the fewest running turns,
/// of these to the one that has been served least, slots that are given away before counted. accounts[i] is an index of
/// `served` and `running`.
std::vector<size_t> SlotOrder(std::span<const size_t> accounts, std::vector<double> served,
                              std::vector<int64_t> running);

/// A running turn that may give its slot to another account's.
struct SlotHolder {
  size_t account = 0;
  int64_t steps = 0;  // since it was given the slot
  int64_t rows = 0;   // to be copied before the slot is free
  bool may_leave = true;
  bool is_kept = true;  // little is computed again: a tier would keep its cache, or it is a short branch
  double ahead = 0;     // tokens served to its account more than to the one that waits
};
/// Steps that a turn runs before its slot goes around among accounts that are more than the slots, and before a turn
/// whose cache cannot be saved is preempted at all.
constexpr int64_t kQuantumSteps = 32;
/// An account that returns is counted as served twice that less than the others, so its short turns do not wait for a
/// quantum until they have used up the difference.
constexpr double kMuchMore = 1024;
/// The running turn to be preempted for a turn of `account` that waits; nullopt = none. An account is above its fair
/// share if it has two running turns more than the one that waits: it gives one at once. Where the one that waits has
/// none, any turn gives way whose quantum is over, and a turn of an account that has been served kMuchMore tokens more
/// at once.
std::optional<size_t> PickVictim(std::span<const SlotHolder> holders, size_t account);

/// When a prompt should have been computed: as its turn came, and a few times as long as computing takes later, so that
/// a short one passes longer ones that came little earlier, and nobody waits forever.
int64_t PromptDeadline(int64_t submitted_ns, double computing_ns);

/// Tokens served to each account, for turns that wait or run. An account that returns after a pause is counted a little
/// below the least served of the others, so that its short turn comes first; it gains no more by a longer pause. The
/// tokens that it is served are remembered: many short visits get no more than one long visit.
class ServedTokens {
 public:
  /// A token that is written costs as much as so many that are read.
  static constexpr double kWritten = 2;

  /// A turn of the account has come; one that was announced so is gone.
  void Enter(const std::string& account);
  void Leave(const std::string& account);
  void Add(const std::string& account, double tokens);
  double Of(const std::string& account) const;

 private:
  struct Account {
    double served = 0;
    int64_t turns = 0;
  };
  void Advance();
  std::map<std::string, Account> accounts_;  // with turns, or ahead of where they would begin
  double time_ = 0;  // virtual: the least that an account with turns has been served; never less than before
};

}  // namespace ringside
