#!/usr/bin/env python3
"""Makes blocks.gguf: random blocks of every supported quantized type, and the values that the reference decodes.

    make_block_golden.py [FOLDER]            needs numpy, gguf

For each type a tensor of its name and a float32 tensor NAME.values, both of two rows of 256 values. Every bit of the
integers is random, and so are scales, which are never infinite or NaN.
"""
import sys
from pathlib import Path

import gguf
import numpy as np

ROWS, COLS = 2, 256
# Offsets of the float16 scales in a block.
HALVES = {"Q4_0": (0,), "Q4_1": (0, 2), "Q5_0": (0,), "Q5_1": (0, 2), "Q8_0": (0,), "Q2_K": (80, 82), "Q3_K": (108,),
          "Q4_K": (0, 2), "Q5_K": (0, 2), "Q6_K": (208,), "IQ4_NL": (0,), "IQ4_XS": (0,), "MXFP4": (), "IQ2_XXS": (0,),
          "IQ2_XS": (0,), "IQ2_S": (0,), "IQ3_XXS": (0,), "IQ3_S": (0,), "IQ1_S": (0,), "IQ1_M": (), "TQ1_0": (52,),
          "TQ2_0": (64,), "NVFP4": ()}


def random_blocks(rng, name):
    values, size = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[name]]
    data = rng.integers(0, 256, (ROWS, COLS // values, size), np.uint8)
    for place in HALVES[name]:
        halves = rng.integers(0, 1 << 16, data.shape[:2], np.uint16)
        halves[halves & 0x7C00 == 0x7C00] ^= 0x4000
        data[:, :, place : place + 2] = halves[..., None].view(np.uint8)
    if name == "MXFP4":
        data[:, :, 0] = rng.integers(0, 253, data.shape[:2])
        data[0, :3, 0] = 0, 1, 252
    if name == "IQ1_M":  # the highest four bits of each word are a float16, lowest bits first
        last = data[:, :, 55]
        last[last & 0x70 == 0x70] ^= 0x40
    if name == "NVFP4":
        data[:, :, :4] = rng.integers(0, 0x7F, data[:, :, :4].shape)
    return data.reshape(ROWS, -1)


def main(out):
    rng = np.random.default_rng(20)
    writer = gguf.GGUFWriter(out / "blocks.gguf", "blocks")
    for name in HALVES:  # new types last: those before keep their bytes
        kind, data = gguf.GGMLQuantizationType[name], random_blocks(rng, name)
        writer.add_tensor(name, data, raw_dtype=kind)
        writer.add_tensor(name + ".values", gguf.quants.dequantize(data, kind))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent)
