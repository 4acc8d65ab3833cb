// A step input that is not known yet: the i-th token sampled by the previous step. It is encoded as a negative id in
// the list of ids, and the device substitutes the token (deferred sampling).
#pragma once

#include <cstddef>
#include <cstdint>

namespace ringside {

constexpr int32_t DeferredToken(size_t i) { return ~static_cast<int32_t>(i); }
constexpr bool IsDeferredToken(int32_t id) { return id < 0; }
/// i of DeferredToken(i).
constexpr size_t DeferredTokenIndex(int32_t id) { return static_cast<size_t>(~id); }

}  // namespace ringside
