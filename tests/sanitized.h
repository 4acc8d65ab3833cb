// Whether this build uses a sanitizer, to scale sizes: slow tests get smaller instead of being skipped.
#pragma once

namespace ringside {

#ifdef __SANITIZE_THREAD__
constexpr bool kUnderTsan = true;
#else
constexpr bool kUnderTsan = false;
#endif
#ifdef __SANITIZE_ADDRESS__
constexpr bool kUnderAsan = true;
#else
constexpr bool kUnderAsan = false;
#endif
constexpr bool kSanitized = kUnderTsan || kUnderAsan;

}  // namespace ringside
