// The kernel table for instruction set neon: every AArch64 processor. See kernel_table.h.
#define RINGSIDE_LANES neon
#include "kernels/cpu/isa/neon_products.h"
#include "kernels/cpu/table_inl.h"
