// The log line with the length of the window, the reason for it, and the number of conversations that fit at full
// length. Pure; any thread.
#pragma once

#include <cstdint>
#include <string>

namespace ringside {

struct WindowFacts {
  int64_t memory_len = 0, pinned_max = 0;  // tokens
  int64_t context = 0;                     // tokens that the model can see; 0 = it sets no bound
  bool asked = false;                      // the operator has set memory_len
  int64_t sessions = 0;                    // whole windows that the memory of all caches holds
  int64_t slots = 0;                       // that share it
};

/// "window: 7936 tokens and up to 256 pinned: the model's context of 8192; 8 sessions fit at full length, in 8 slots"
std::string DescribeWindow(const WindowFacts& facts);

}  // namespace ringside
