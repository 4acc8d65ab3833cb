#include "ws/config/window_line.h"

#include <fmt/format.h>

namespace ringside {
namespace {

std::string Why(const WindowFacts& facts) {
  if (facts.context == 0) return facts.asked ? "--memory-len" : "the model sets no bound";
  if (facts.asked) return fmt::format("--memory-len, of the model's context of {}", facts.context);
  if (facts.memory_len + facts.pinned_max >= facts.context) {
    return fmt::format("the model's context of {}", facts.context);
  }
  return fmt::format("as memory allows, of the model's context of {}", facts.context);
}

}  // namespace

std::string DescribeWindow(const WindowFacts& facts) {
  return fmt::format("window: {} tokens and up to {} pinned: {}; {} session{} at full length, in {} slots",
                     facts.memory_len, facts.pinned_max, Why(facts), facts.sessions,
                     facts.sessions == 1 ? " fits" : "s fit", facts.slots);
}

}  // namespace ringside
