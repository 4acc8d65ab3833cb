#include "engine/grammar/grammar_budget.h"

#include <algorithm>
#include <limits>
#include <string>

namespace ringside {
namespace {

constexpr int64_t kStepsBetweenQuestions = 1 << 16;

}  // namespace

void GrammarBudget::Refuse(Status why) {
  if (!status_.ok()) return;
  status_ = std::move(why);
  ask_at_ = std::numeric_limits<int64_t>::max();
}

bool GrammarBudget::Check() {
  if (!status_.ok()) return false;
  if (steps_left_ < 0) {
    Refuse(InvalidArgument("The grammar is too large: compiling it takes more than " + std::to_string(limits_.steps) +
                           " steps."));
  } else if (held_ > limits_.bytes) {
    Refuse(InvalidArgument("The grammar is too large: compiling it takes more than " +
                           std::to_string(limits_.bytes >> 20) + " MiB of memory."));
  } else if (abandoned_ && abandoned_()) {
    Refuse({StatusCode::kCancelled, "The client disconnected."});
  }
  if (!status_.ok()) return false;
  ask_at_ = std::max<int64_t>(steps_left_ - kStepsBetweenQuestions, 0) - 1;
  return true;
}

}  // namespace ringside
