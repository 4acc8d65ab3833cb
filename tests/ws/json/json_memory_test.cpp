// A reader that runs out of memory says so by an exception: it is not the message that is wrong.
#include <gtest/gtest.h>

#include <cstdlib>
#include <new>
#include <string>

#include "ws/json/json_value.h"

namespace {
thread_local size_t largest_allocation = SIZE_MAX;
}  // namespace

// Of the whole test binary: plain, but where a test sets a limit. The compiler sees one half of the pair at a time.
#pragma GCC diagnostic ignored "-Wmismatched-new-delete"
void* operator new(size_t bytes) {
  void* memory = bytes <= largest_allocation ? std::malloc(bytes) : nullptr;
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }

namespace ringside {
namespace {

TEST(JsonMemory, WantOfMemoryIsNoFaultOfTheMessage) {
  const std::string message = "\"" + std::string(1 << 20, 'x') + "\"";
  ASSERT_TRUE(ParseJson(message).ok());
  largest_allocation = 1 << 16;
  bool thrown = false;
  try {
    (void)ParseJson(message).ok();
  } catch (const std::bad_alloc&) {
    thrown = true;
  }
  largest_allocation = SIZE_MAX;
  EXPECT_TRUE(thrown);
}

}  // namespace
}  // namespace ringside
