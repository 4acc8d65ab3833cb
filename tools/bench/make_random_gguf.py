"""Writes a GGUF file of random quantized weights in a model's shape, for benchmarks of files whose weights are not
available.

    python3 tools/bench/make_random_gguf.py SHAPE Q4_K_M|TYPE FILE [LAYERS]

Needs numpy. SHAPE is one of random_shapes.SHAPES, TYPE one of TYPES below; LAYERS defaults to the shape's. Block integers are random bits; scales make the
weights about N(0, 0.02): no zeros, which would make a GPU faster, and zero mean, because otherwise all tokens' rows
would be alike and select the same experts. Matrices of one size share their blocks at different offsets, and long ones
repeat every 64 million weights, so that writing is bound by the disk; routers and vectors differ. In Q4_K_M files the same matrices
are Q6_K as with llama.cpp's quantizer: the head, and in about every second layer the values and the MLP's output. There
is no vocabulary: most benchmarks need none; make_random_vision.py writes one.
"""

import dataclasses
import functools
import math
import struct
import sys

import numpy
from random_shapes import SECTIONS, SHAPES, integers, tensors

# type number, values and bytes per block, offsets of the float16 scales, their values: minima are chosen so that the
# mean is about zero
TYPES = {"F32": (0, 1, 4, (), ()), "RANDOM": (0, 1, 4, (), ()), "RATE": (0, 1, 4, (), ()), "F16": (1, 1, 2, (), ()), "Q4_0": (2, 32, 18, (0,), (0.003,)),
         "Q8_0": (8, 32, 34, (0,), (0.0003,)), "Q4_K": (12, 256, 144, (0, 2), (0.0001, 0.00075)),
         "Q5_K": (13, 256, 176, (0, 2), (0.00005, 0.000775)), "Q6_K": (14, 256, 210, (208,), (0.00002,)),
         "Q2_K": (10, 256, 84, (80, 82), (0.0013, 0.00195)), "Q3_K": (11, 256, 110, (108,), (0.0005,)),
         "IQ4_NL": (20, 32, 18, (0,), (0.0003,)), "IQ4_XS": (23, 256, 136, (0,), (0.000015,)), "MXFP4": (39, 32, 17, (), ()),
         "IQ2_XXS": (16, 256, 66, (0,), (0.0004,)), "IQ2_S": (22, 256, 82, (0,), (0.0004,)),
         "IQ3_XXS": (18, 256, 98, (0,), (0.00015,)), "IQ3_S": (21, 256, 110, (0,), (0.00015,)),
         "IQ1_S": (19, 256, 50, (0,), (0.003,)), "TQ1_0": (34, 256, 54, (52,), (0.025,))}
U32, F32, STRING, ARRAY = 4, 6, 8, 9
ALIGNMENT = 32
TURN = 977  # blocks


def text(value):
    data = value.encode()
    return struct.pack("<Q", len(data)) + data


def string(key, value):
    return text(key) + struct.pack("<I", STRING) + text(value)


def metadata(shape, vocabulary=None):
    """The entries; `vocabulary`: those of one."""
    entries = [string("general.architecture", shape.architecture),
               *(vocabulary or [string("tokenizer.ggml.model", "no_vocab")])]
    entries += [text(f"{shape.architecture}.{key}") + struct.pack("<II", U32, value)
                for key, value in integers(shape).items()]
    entries += [text(f"{shape.architecture}.{key}") + struct.pack("<If", F32, value)
                for key, value in (("rope.freq_base", 500000.0), ("attention.layer_norm_rms_epsilon", 1e-5))]
    if shape.value_heads:
        entries.append(text(f"{shape.architecture}.rope.dimension_sections") +
                       struct.pack("<IIQ4I", ARRAY, U32, len(SECTIONS), *SECTIONS))
    return entries


def blocks(rng, count, kind):
    """`count` values."""
    _, values, size, places, scales = TYPES[kind]
    if kind == "F32":
        return numpy.ones(count, numpy.float32).tobytes()
    if kind == "RANDOM":
        return (rng.standard_normal(count, numpy.float32) * 0.02).tobytes()
    if kind == "RATE":
        return (-rng.uniform(0.05, 4, count)).astype(numpy.float32).tobytes()
    if kind == "F16":
        return (rng.standard_normal(count, numpy.float32) * 0.02).astype(numpy.float16).tobytes()
    data = rng.integers(0, 256, (count // values, size), numpy.uint8)
    if kind == "Q8_0":
        data[data == 128] = 127  # not written by any quantizer
    if kind == "MXFP4":
        data[:, 0] = rng.integers(119, 122, count // values)  # exponents of two, with a bias of 127
    numbers = rng.uniform(0.5, 1.5, (count // values, len(places))) * scales
    numbers = numbers.astype(numpy.float16).view(numpy.uint8)
    for i, place in enumerate(places):
        data[:, place : place + 2] = numbers[:, 2 * i : 2 * i + 2]
    return data.tobytes()


@functools.cache
def same_blocks(count, kind):
    return blocks(numpy.random.default_rng(count), count, kind)


def main():
    name, kind, path, *layers = sys.argv[1:]
    shape = SHAPES[name]
    if layers:
        shape = dataclasses.replace(shape, layers=int(layers[0]))
    write(path, metadata(shape), list(tensors(shape, kind)))


def write(path, entries, plan):
    """`plan`: tensors as those of random_shapes.tensors."""
    rng, offset, infos = numpy.random.default_rng(1), 0, []
    for tensor, sizes, of in plan:
        number, values, size, _, _ = TYPES[of]
        infos.append(text(tensor) + struct.pack(f"<I{len(sizes)}QIQ", len(sizes), *reversed(sizes), number, offset))
        offset += -(-math.prod(sizes) // values * size // ALIGNMENT) * ALIGNMENT
    with open(path, "wb") as file:
        file.write(b"GGUF" + struct.pack("<IQQ", 3, len(plan), len(entries)) + b"".join(entries + infos))
        for i, (_, sizes, of) in enumerate(plan):
            file.write(b"\0" * (-file.tell() % ALIGNMENT))
            left, step = math.prod(sizes), (64 << 20) // sizes[-1] * sizes[-1]
            while left > 0:
                count = min(step, left)
                data = memoryview(blocks(rng, count, of) if of in ("RANDOM", "RATE") else same_blocks(count, of))
                first = i * TURN * TYPES[of][2] % len(data)
                file.write(data[first:])
                file.write(data[:first])
                left -= step


if __name__ == "__main__":
    main()
