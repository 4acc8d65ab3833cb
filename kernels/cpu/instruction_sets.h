// The compiled instruction sets that this machine and kernel support. THREAD: any.
#pragma once

#include <string_view>

#include "kernels/cpu/kernel_table.h"

namespace ringside::cpu {

/// The table named `name`, or the best one if it is empty; null if this machine does not support it.
const KernelTable* FindKernelTable(std::string_view name);

}  // namespace ringside::cpu
