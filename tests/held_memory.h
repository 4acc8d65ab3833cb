// The heap of a test binary that links held_memory.cpp: counted per thread, in bytes, and limited by a test. The count
// of a thread that frees other threads' memory can be negative.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ringside {

extern thread_local int64_t held_memory, most_held_memory;
extern thread_local size_t largest_allocation;  // larger allocations fail

}  // namespace ringside
