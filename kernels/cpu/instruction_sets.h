// Which of the compiled instruction sets this machine and kernel can run. Any thread.
#pragma once

#include <string_view>

#include "kernels/cpu/kernel_table.h"

namespace ringside::cpu {

/// The table named `name`, or the best one if it is empty; null if this machine cannot run it.
const KernelTable* FindKernelTable(std::string_view name);

}  // namespace ringside::cpu
