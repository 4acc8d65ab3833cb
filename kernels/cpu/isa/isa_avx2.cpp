// The kernel table for instruction set avx2. Compiled with its own options (kernels/CMakeLists.txt); see
// kernel_table.h.
#define RINGSIDE_LANES avx2
#include "kernels/cpu/isa/lanes_avx2.h"
#include "kernels/cpu/table_inl.h"
