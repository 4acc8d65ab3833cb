// The scheduler as a pure function: each step takes all decode rows first, then prompt rows. Independent of caches,
// models and threads.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace ringside {

/// A running turn as the scheduler sees it.
struct StepTurn {
  int64_t remaining = 0;  // tokens to compute before its next sample; 1 = decodes, 0 = not in this step
  double urgency = 0;     // orders the prompts of one tenant, the most urgent first (PromptUrgency)
  size_t tenant = 0;      // its tenant: an index of `served`
  int64_t least = 1;      // tokens that its next chunk has at least, up to StepLimits::chunk
  int64_t drafts = 0;     // draft tokens that it would verify; only if it decodes
  double work = 1;        // of a prompt row, in units of a row without attention (StepTime)
};

struct StepLimits {
  int64_t prompt_rows = 256;  // maximum for all prompts together
  int64_t chunk = 128;        // maximum for one prompt
  int64_t tile = 1;           // M tile of the device's matmuls: a partial tile costs the same as a whole one
  int64_t draft_rows = 0;     // maximum for the drafts of all turns together
  static constexpr double kUnlimited = std::numeric_limits<double>::infinity();
  double prompt_work = kUnlimited;  // maximum for all prompts together
  /// A prompt that the step cannot finish is added only up to this much work in total: it yields to prompts that arrive
  /// during the step.
  double yield_work = kUnlimited;
  /// Prompts of a tenant that was served kServedMargin tokens more than another one in the step are added only up to
  /// this much work in total, so that they delay that tenant's tokens little.
  double ahead_work = kUnlimited;
  double step_work = 0;  // prompt work that takes the time of a step without prompts; 0 = unknown
};

/// Tokens to compute for each turn (0 = none). Each decoding turn gets its row, and in a step without prompts rows for
/// its drafts. The remaining rows go to prompts, a chunk at a time: to the tenant with the fewest served tokens, those
/// of this step included (a virtual token counter: Sheng et al. 2024, "Fairness in Serving Large Language Models"), and
/// within a tenant to the most urgent prompt. Prompts are thus computed one after the other, so that they do not all
/// finish late. A partial tile waits for the next step if it is less than a quarter of the prompt rows and no prompt's
/// end, or if another step takes at most the time of two tiles; otherwise no row is left unused while a prompt
/// needs one. A prompt's chunk may be indivisible (`least`): the first one of a step may then exceed the rows that are
/// left, and later ones wait.
std::vector<int64_t> PlanStep(std::span<const StepTurn> turns, std::vector<double> served, const StepLimits& limits);

/// The order in which queued turns, oldest first, get slots: the next slot goes to the tenant with the fewest running
/// turns, then to the least served one, counting the slots already assigned. tenants[i] is an index of `served` and
/// `running`.
std::vector<size_t> SlotOrder(std::span<const size_t> tenants, std::vector<double> served,
                              std::vector<int64_t> running);

/// A running turn that could be preempted for another tenant.
struct SlotHolder {
  size_t tenant = 0;
  int64_t steps = 0;  // steps since it got the slot, less those repeated if its cache is lost
  int64_t rows = 0;   // rows to copy before the slot is free, or to recompute if no tier would keep them
  bool is_preemptable = true;
  bool has_run = true;         // a step has computed rows of it since it got the slot
  bool is_recoverable = true;  // little is recomputed: a tier would keep its cache, or it is a short branch
  double ahead = 0;            // served tokens of its tenant minus those of the queued turn's tenant
};
/// Minimum steps between preemptions when there are more tenants than slots, and before a turn whose cache cannot be
/// saved is preempted at all.
constexpr int64_t kQuantumSteps = 32;
/// A returning tenant starts 2 * kServedMargin below the others, so its short turns do not wait for a quantum until
/// they have used up the difference.
constexpr double kServedMargin = 1024;
/// Tenants whose served tokens fall in one bucket of this size count as equal and alternate by deadline.
constexpr double kServedBucket = 2 * kServedMargin;
/// A queued turn that needs a slot.
struct SlotSeeker {
  size_t tenant = 0;
  bool is_new = false;  // it has never had a slot, and needs one only
};
struct Victim {
  size_t holder = 0;
  int64_t charge = 0;  // tokens charged to the queued turn's tenant for the victim's recomputation
  bool operator==(const Victim&) const = default;
};
/// The running turn to preempt for a queued turn; nullopt = none. A tenant with at least two running turns more than
/// the queued turn's tenant is above its fair share and yields a slot at once. If the queued turn's tenant has no
/// running turn, any turn whose quantum is over may be preempted, and a turn of a tenant that was served kServedMargin
/// tokens more may be preempted at once. A new turn counts as if its tenant had been served kServedMargin tokens less.
/// It also preempts, at once, a turn whose cache is lost by that: of a tenant above its fair share, or of a tenant with
/// `ahead` sufficient for the charge. So no new turn waits for a quantum, each causes at most one such preemption, and
/// no tenant causes more recomputation than it is charged for.
std::optional<Victim> PickVictim(std::span<const SlotHolder> holders, const SlotSeeker& seeker);

/// Urgency of a prompt that has waited `waited_ns` and takes `computing_ns` in all: the response ratio, so that short
/// prompts come first, and every prompt becomes more urgent than shorter ones that arrive later. A prompt that has
/// waited kPatienceNs is more urgent than any that has not.
double PromptUrgency(int64_t waited_ns, double computing_ns);
constexpr int64_t kPatienceNs = 20'000'000'000;

/// Virtual token counters: tokens served to each tenant with queued or running turns. A tenant that returns after a
/// pause starts slightly below the least served tenant, so that its short turn comes first; a longer pause gains no
/// more. The counter survives short pauses, and many short visits get no more than one long visit.
/// THREAD: one at a time, except where stated.
class VirtualTokenCounter {
 public:
  /// Cost of a decoded token in prefill tokens.
  static constexpr double kDecodeWeight = 2;

  /// A turn of the tenant arrives; a turn leaves.
  void Enter(const std::string& tenant);
  void Leave(const std::string& tenant);
  void Add(const std::string& tenant, double tokens);
  /// Charges `to` in place of `from` for tokens that `from` will be served.
  void Charge(const std::string& from, const std::string& to, double tokens) {
    Add(from, -tokens);
    Add(to, tokens);
  }
  double Of(const std::string& tenant) const;
  /// The counter of a tenant after Enter, for a tenant without turns. `least`: the minimum counter of tenants with
  /// turns; infinite = none has. THREAD: any.
  double AtArrival(const std::string& tenant, double least) const;
  /// As AtArrival, of a tenant that was never served.
  double Start(double least) const;

 private:
  struct Tenant {
    double served = 0;
    int64_t turns = 0;
  };
  double BeginAt(double least) const;
  void Advance();
  mutable std::mutex mutex_;               // for AtArrival and Start: only one thread changes the members
  std::map<std::string, Tenant> tenants_;  // tenants with turns, or above their starting value
  double time_ = 0;                        // virtual time: the minimum counter of tenants with turns; monotonic
};

}  // namespace ringside
