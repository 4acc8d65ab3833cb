// The kernel table for instruction set avx_vnni: processors without AVX-512 that have int8 dot products on 32-byte
// registers (Intel's for laptops since 2021). Compiled with its own options (kernels/CMakeLists.txt); see
// kernel_table.h.
#define RINGSIDE_LANES avx_vnni
#include "kernels/cpu/isa/lanes_avx2.h"
#include "kernels/cpu/table_inl.h"
