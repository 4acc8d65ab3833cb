#include "base/open_files.h"

#include <sys/resource.h>

#include <algorithm>
#include <limits>

namespace ringside {

int ShareOfOpenFiles(int64_t part, int64_t least, int64_t most) {
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) != 0) return static_cast<int>(least);
  constexpr rlim_t kLargest = std::numeric_limits<int>::max();  // RLIM_INFINITY is larger
  return static_cast<int>(std::clamp(static_cast<int64_t>(std::min(files.rlim_cur, kLargest)) / part, least, most));
}

}  // namespace ringside
