// Shares of the open-file limit, for databases that keep their files open. THREAD: any.
#pragma once

#include <cstdint>

namespace ringside {

/// One `part`th of the process's current open-file limit, clamped to [least, most].
int ShareOfOpenFiles(int64_t part, int64_t least, int64_t most);

}  // namespace ringside
