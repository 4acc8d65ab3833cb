// Whether this build runs under a sanitizer, for sizes: what is too slow there is smaller, and not left out.
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
