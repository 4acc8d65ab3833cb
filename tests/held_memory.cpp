#include "tests/held_memory.h"

#include <malloc.h>

#include <algorithm>
#include <cstdlib>
#include <new>

namespace ringside {

thread_local int64_t held_memory = 0, most_held_memory = 0;
thread_local size_t largest_allocation = SIZE_MAX;

}  // namespace ringside

// The compiler sees only one half of the pair at a time.
#pragma GCC diagnostic ignored "-Wmismatched-new-delete"
void* operator new(size_t bytes, const std::nothrow_t&) noexcept {
  void* memory = bytes <= ringside::largest_allocation ? std::malloc(bytes) : nullptr;
  if (memory == nullptr) return nullptr;
  ringside::held_memory += static_cast<int64_t>(malloc_usable_size(memory));
  ringside::most_held_memory = std::max(ringside::most_held_memory, ringside::held_memory);
  return memory;
}
void* operator new(size_t bytes) {
  void* memory = operator new(bytes, std::nothrow);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void operator delete(void* memory) noexcept {
  ringside::held_memory -= static_cast<int64_t>(malloc_usable_size(memory));
  std::free(memory);
}
void operator delete(void* memory, size_t) noexcept { operator delete(memory); }
