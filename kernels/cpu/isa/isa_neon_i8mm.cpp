// The kernel table for instruction set neon_i8mm: processors with int8 matrix products (Neoverse V1, N2, V2). Compiled
// with its own options (kernels/CMakeLists.txt); see kernel_table.h.
#define RINGSIDE_LANES neon_i8mm
#define RINGSIDE_TILE_UNIT "kernels/cpu/matrix_unit_inl.h"
#include "kernels/cpu/isa/neon_products.h"
#include "kernels/cpu/table_inl.h"
