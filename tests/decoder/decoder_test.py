"""ringside-image-decoder: one image file in, RGB or a reason out, whatever the file contains.

The files of images/ are 16 x 12 pixels of the colours (200, 8 x, 40); grey.jpg and cmyk.jpg have others.
"""

import os
import random
import struct
import subprocess
import time
import zlib
from pathlib import Path

import pytest

DECODER = os.environ["RINGSIDE_IMAGE_DECODER"]
IMAGES = Path(__file__).resolve().parent / "images"
WIDTH, HEIGHT = 16, 12
DECODED, UNKNOWN, MALFORMED, TOO_LARGE, ANIMATED, OUT_OF_MEMORY = range(6)
MUTATIONS = 60  # of each file
MEMORY = 256 << 20


def decode(data, pixels=1 << 20, memory=MEMORY, seconds=10, file_bytes=16 << 20):
    """The status, width, height and bytes of the reply."""
    arguments = [DECODER, str(pixels), str(memory), str(seconds), str(file_bytes)]
    done = subprocess.run(arguments, input=data, capture_output=True, check=False)
    assert done.returncode == 0, f"the decoder ended with {done.returncode}"
    magic, status, width, height = struct.unpack("<4sIII", done.stdout[:16])
    assert magic == b"RSI1"
    rgb = done.stdout[16:]
    assert len(rgb) == width * height * 3
    assert (status == DECODED) == (width * height > 0)
    return status, width, height, rgb


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(width, height, rows, more=b""):
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + more + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def files():
    return sorted(path for path in IMAGES.iterdir())


@pytest.mark.parametrize("name", ["rgb.png", "alpha.png", "palette.png", "deep.png", "lossless.webp"])
def test_exact_formats(name):
    status, width, height, rgb = decode((IMAGES / name).read_bytes())
    assert (status, width, height) == (DECODED, WIDTH, HEIGHT)
    assert list(rgb) == [value for _ in range(HEIGHT) for x in range(WIDTH) for value in (200, x * 8, 40)]


@pytest.mark.parametrize("name", ["baseline.jpg", "progressive.jpg", "lossy.webp"])
def test_lossy_formats(name):
    status, width, height, rgb = decode((IMAGES / name).read_bytes())
    assert (status, width, height) == (DECODED, WIDTH, HEIGHT)
    expected = [value for _ in range(HEIGHT) for x in range(WIDTH) for value in (200, x * 8, 40)]
    assert max(abs(a - b) for a, b in zip(rgb, expected)) <= 8


def test_grey_and_cmyk():
    status, _, _, rgb = decode((IMAGES / "grey.jpg").read_bytes())
    assert status == DECODED and rgb[0::3] == rgb[1::3] == rgb[2::3]
    status, _, _, rgb = decode((IMAGES / "cmyk.jpg").read_bytes())
    assert status == DECODED and tuple(rgb[:3]) == (10, 0, 0), "255 * 10 / 255, 10 * 10 / 255"


def test_other_files_are_named():
    for data in (b"", b"GIF89a" + bytes(100), b"<svg/>", b"BM" + bytes(60)):
        assert decode(data)[0] == UNKNOWN
    assert decode((IMAGES / "animated.webp").read_bytes())[0] == ANIMATED


@pytest.mark.parametrize("path", files(), ids=lambda path: path.name)
def test_cut_files_are_errors(path):
    data = path.read_bytes()
    for length in range(len(data)):
        status, _, _, rgb = decode(data[:length])
        # Formats end with a trailer that holds no pixels.
        if status == DECODED:
            assert length > len(data) * 3 // 4 and rgb == decode(data)[3], f"{path.name} cut to {length} bytes"


@pytest.mark.parametrize("path", files(), ids=lambda path: path.name)
def test_mutated_files_get_an_answer(path):
    data = path.read_bytes()
    rng = random.Random(path.name)
    for _ in range(MUTATIONS):
        changed = bytearray(data)
        for _ in range(rng.randint(1, 8)):
            changed[rng.randrange(len(changed))] = rng.choice([0, 0xFF, 0x80, rng.randrange(256)])
        decode(bytes(changed))


def test_bombs_are_refused_by_their_headers():
    for width, height in ((30000, 30000), (1 << 20, 2), (2**31 - 1, 2**31 - 1)):
        assert decode(png(width, height, b""))[0] in (TOO_LARGE, MALFORMED)
    large = bytearray((IMAGES / "baseline.jpg").read_bytes())
    at = large.index(b"\xff\xc0") + 5
    large[at : at + 4] = struct.pack(">HH", 65000, 65000)
    assert decode(bytes(large))[0] == TOO_LARGE
    assert decode(png(WIDTH, HEIGHT, b""), pixels=WIDTH * HEIGHT - 1)[0] == TOO_LARGE


def test_memory_and_file_size_are_limited():
    rows = (b"\0" + bytes(4000 * 3)) * 4000
    bomb = png(4000, 4000, rows)
    assert len(bomb) < 100_000
    assert decode(bomb, pixels=1 << 24)[0] == DECODED
    assert decode(bomb, pixels=1 << 24, memory=40 << 20)[0] == OUT_OF_MEMORY
    text = chunk(b"zTXt", b"a\0\0" + zlib.compress(bytes(64 << 20)))
    assert decode(png(1, 1, b"\0abc", text), memory=MEMORY)[0] == DECODED, "compressed texts are not read"
    assert decode(bytes(2000), file_bytes=1000)[0] == TOO_LARGE


def test_arguments_are_checked():
    for arguments in ([], ["1", "2", "3"], ["0", "1", "1", "1"], ["x", "1", "1", "1"], ["-1", "1", "1", "1"]):
        assert subprocess.run([DECODER, *arguments], input=b"", capture_output=True, check=False).returncode == 64


def test_the_process_has_no_rights():
    with subprocess.Popen([DECODER, "1000", str(MEMORY), "7", "1000"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        proc = Path(f"/proc/{process.pid}")
        deadline = time.monotonic() + 60
        while "Seccomp:\t2" not in (proc / "status").read_text():
            if process.poll() is not None or time.monotonic() > deadline:
                pytest.skip("this build has no filter (a sanitizer)")
            time.sleep(0.01)
        status = (proc / "status").read_text()
        assert "NoNewPrivs:\t1" in status
        if os.geteuid() == 0:
            assert "Uid:\t65534\t65534\t65534\t65534" in status and "CapEff:\t0000000000000000" in status
        limits = {line[:26].strip(): line[26:].split()[0] for line in (proc / "limits").read_text().splitlines()[1:]}
        assert limits["Max open files"] == "0" and limits["Max file size"] == "0" and limits["Max core file size"] == "0"
        assert limits["Max address space"] == str(MEMORY) and limits["Max cpu time"] == "7"
        process.stdin.close()
        assert process.wait(60) == 0
