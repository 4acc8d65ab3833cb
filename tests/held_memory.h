// The heap of a test binary that is linked with held_memory.cpp: counted by thread, in bytes, and limited where a test
// says so. A thread that gives back what others took has less than 0.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ringside {

extern thread_local int64_t held_memory, most_held_memory;
extern thread_local size_t largest_allocation;  // more at once is refused

}  // namespace ringside
