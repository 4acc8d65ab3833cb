// The log line about the window: its length, the reason, and how many conversations fit at full length. Pure.
// THREAD: any.
#pragma once

#include <cstdint>
#include <string>

namespace ringside {

struct WindowFacts {
  int64_t memory_len = 0, pinned_max = 0;  // tokens
  int64_t context = 0;                     // the model's context in tokens; 0 = unbounded
  bool asked = false;                      // memory_len was set by the operator
  int64_t sessions = 0;                    // whole windows that fit into the caches' memory
  int64_t slots = 0;                       // slots that share it
};

/// "window: 7936 tokens and up to 256 pinned: the model's context of 8192; 8 sessions fit at full length, in 8 slots"
std::string DescribeWindow(const WindowFacts& facts);

}  // namespace ringside
