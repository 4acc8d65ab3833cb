// The kernel table for instruction set avx512_vnni. Compiled with its own options (kernels/CMakeLists.txt); see
// kernel_table.h.
#define RINGSIDE_LANES avx512_vnni
#include "kernels/cpu/isa/lanes_avx512.h"
#include "kernels/cpu/table_inl.h"
