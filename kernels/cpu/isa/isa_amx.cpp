// The kernel table for instruction set amx: AVX-512 VNNI, with tile products for full row tiles. Compiled with its own
// options (kernels/CMakeLists.txt); see kernel_table.h.
#define RINGSIDE_LANES amx
#define RINGSIDE_TILE_UNIT "kernels/cpu/tile_unit_inl.h"
#include "kernels/cpu/isa/lanes_avx512.h"
#include "kernels/cpu/table_inl.h"
