// An input of a step that is not known yet: the i-th of the tokens that the last step chooses. It goes where ids go, as
// a negative number, and the device puts the token in its place.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ringside {

constexpr int32_t AwaitedToken(size_t i) { return ~static_cast<int32_t>(i); }
constexpr bool IsAwaited(int32_t id) { return id < 0; }
/// i of AwaitedToken(i).
constexpr size_t AwaitedIndex(int32_t id) { return static_cast<size_t>(~id); }

}  // namespace ringside
