// The kernel table for instruction set neon_dotprod: processors with int8 dot products (Cortex-A76, Neoverse N1).
// Compiled with its own options (kernels/CMakeLists.txt); see kernel_table.h.
#define RINGSIDE_LANES neon_dotprod
#include "kernels/cpu/isa/neon_products.h"
#include "kernels/cpu/table_inl.h"
