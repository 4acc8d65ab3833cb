// Last include of a file compiled for one instruction set: its kernel table. RINGSIDE_LANES is its name.
#pragma once

#include "kernels/cpu/attention_inl.h"
#include "kernels/cpu/linear_inl.h"
#include "kernels/cpu/recurrence_inl.h"
#include "kernels/cpu/rows_inl.h"

#define RINGSIDE_TEXT_INNER(x) #x
#define RINGSIDE_TEXT(x) RINGSIDE_TEXT_INNER(x)

namespace ringside::cpu::RINGSIDE_LANES {

const KernelTable& Table() {
  static constexpr KernelTable kTable = {.name = RINGSIDE_TEXT(RINGSIDE_LANES),
                                         .quantize = QuantizeRows,
                                         .linear = LinearPieceAny,
                                         .rms_norm = RmsNormRow,
                                         .layer_norm = LayerNormRow,
                                         .multiply_activated = MultiplyActivatedRow,
                                         .activate = ActivateRow,
                                         .soft_cap = SoftCapRow,
                                         .store_rows = StoreRows,
                                         .attend = AttendTile,
                                         .attend_block = AttendBlock,
                                         .merge_blocks = MergeBlocks,
                                         .gate = GateRow,
                                         .convolve = ConvolveRow,
                                         .sum_decays = SumDecays,
                                         .multiply_keys = MultiplyKeys,
                                         .update_state = UpdateState};
  return kTable;
}

}  // namespace ringside::cpu::RINGSIDE_LANES
