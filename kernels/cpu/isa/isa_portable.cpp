// The kernel table for instruction set portable. Compiled with its own options (kernels/CMakeLists.txt); see
// kernel_table.h.
#define RINGSIDE_LANES portable
#include "kernels/cpu/isa/lanes_portable.h"
#include "kernels/cpu/table_inl.h"
