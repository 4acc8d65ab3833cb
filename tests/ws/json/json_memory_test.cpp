// Memory use of JSON parsing: bounded by a multiple of the message size. If memory runs out, the parser throws: the
// message is not at fault.
#include <gtest/gtest.h>

#include <new>
#include <string>

#include "base/limits.h"
#include "tests/held_memory.h"
#include "ws/json/json_value.h"

namespace ringside {
namespace {

TEST(JsonMemory, OutOfMemoryIsNotABadMessage) {
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

TEST(JsonMemory, MemoryIsProportionalToTheMessage) {
  const auto zeros = [](int64_t count) {
    std::string text = "[0";
    for (int64_t i = 1; i < count; ++i) text += ",0";
    return text + "]";
  };
  for (const int64_t values : {limits::kMaxJsonValues - 1, limits::kMaxMessageBytes / 2}) {
    const std::string message = zeros(values);
    const int64_t before = most_held_memory = held_memory;
    const Result<JsonValue> parsed = ParseJson(message);
    EXPECT_LT(most_held_memory - before, 64 << 20) << values;
    EXPECT_EQ(parsed.ok(), values < limits::kMaxJsonValues);
    if (parsed.ok()) continue;
    EXPECT_EQ(parsed.status().reason(), "invalid_json");
    EXPECT_EQ(parsed.status().message(), "The message is not valid JSON: more than 262144 values");
  }
}

}  // namespace
}  // namespace ringside
