// Shares of the limit of open files, for databases that keep their files open. Any thread.
#pragma once

#include <cstdint>

namespace ringside {

/// One `part`th of the process's limit of open files as it is now, at least `least` and at most `most`.
int ShareOfOpenFiles(int64_t part, int64_t least, int64_t most);

}  // namespace ringside
