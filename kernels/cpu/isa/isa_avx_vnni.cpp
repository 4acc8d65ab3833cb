// The operations for instruction set avx_vnni, that of processors without AVX-512 whose registers of 32 bytes have the
// int8 products (Intel's for laptops since 2021). Compiled with its own options (kernels/CMakeLists.txt); see
// kernel_table.h.
#define RINGSIDE_LANES avx_vnni
#include "kernels/cpu/isa/lanes_avx2.h"
#include "kernels/cpu/table_inl.h"
