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
SANITIZED = bool(os.environ.get("RINGSIDE_BUILT_WITH_SANITIZERS"))  # such builds have no memory limit
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


def exif(orientation, order, more=b""):
    """A TIFF whose directory has the camera's maker and the orientation."""
    entries = struct.pack(order + "HHI4s", 0x010F, 2, 4, b"abc\0") + struct.pack(order + "HHIHH", 0x0112, 3, 1, orientation, 0)
    return {"<": b"II*\0", ">": b"MM\0*"}[order] + struct.pack(order + "IH", 8, 2) + entries + bytes(4) + more


def upright(pixels, orientation):
    """Rows of pixels, as EXIF's table of orientations shows them."""
    if orientation > 4:
        pixels = [list(row) for row in zip(*pixels)]
    if orientation in (2, 3, 6, 7):
        pixels = [row[::-1] for row in pixels]
    return pixels[::-1] if orientation in (3, 4, 7, 8) else pixels


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_images_are_turned_upright(orientation, order):
    pixels = [[(x, y, 7) for x in range(5)] for y in range(3)]
    rows = b"".join(b"\0" + bytes(value for pixel in row for value in pixel) for row in pixels)
    turned = upright(pixels, orientation)
    status, width, height, rgb = decode(png(5, 3, rows, chunk(b"eXIf", exif(orientation, order))))
    assert (status, width, height) == (DECODED, len(turned[0]), len(turned))
    assert list(rgb) == [value for row in turned for pixel in row for value in pixel]


def with_exif(name, data):
    """A file of images/ with EXIF data."""
    file = (IMAGES / name).read_bytes()
    if name.endswith(".jpg"):
        return file[:2] + b"\xff\xe1" + struct.pack(">H", len(data) + 8) + b"Exif\0\0" + data + file[2:]
    features = struct.pack("<4sIB3xBBBBBB", b"VP8X", 10, 0x08, WIDTH - 1, 0, 0, HEIGHT - 1, 0, 0)
    chunks = b"WEBP" + features + file[12:] + b"EXIF" + struct.pack("<I", len(data)) + data
    return b"RIFF" + struct.pack("<I", len(chunks)) + chunks


@pytest.mark.parametrize("name", ["baseline.jpg", "lossless.webp"])
def test_other_formats_have_an_orientation(name):
    status, width, height, rgb = decode(with_exif(name, exif(8, ">")))
    assert (status, width, height) == (DECODED, HEIGHT, WIDTH)
    greens = [rgb[y * HEIGHT * 3 + 1] for y in range(WIDTH)]
    assert all(abs(green - 8 * (WIDTH - 1 - y)) <= 8 for y, green in enumerate(greens)), "its right side is up"


@pytest.mark.parametrize("name", ["baseline.jpg", "lossless.webp"])
@pytest.mark.parametrize("data", [b"", b"II", b"II*\0\xff\xff\xff\xff", exif(0, "<"), exif(9, "<"), exif(6, "<")[:20], exif(6, ">")[:-20]])
def test_damaged_exif_data_is_ignored(name, data):
    status, width, height, _ = decode(with_exif(name, data))
    assert (status, width, height) == (DECODED, WIDTH, HEIGHT)


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
    if not SANITIZED:
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
