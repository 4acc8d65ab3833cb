"""`ringside-convert`: a model goes through every format, and a server on each gives the same answers.

    scripts/python -m pytest tests/system/models/convert_test.py
"""

import os
import stat
import subprocess
from pathlib import Path

import pytest
import tiny_gpt
from faster_transformer_test import two_turns
from server_process import server_path


def convert(*arguments):
    program = Path(server_path()).with_name("ringside-convert")
    return subprocess.run([program, *map(str, arguments)], capture_output=True, text=True, timeout=120)


@pytest.fixture
def gpt(tmp_path):
    return tiny_gpt.make(tmp_path / "gpt")


def test_conversion_round_trip(start, gpt, tmp_path):
    gguf, pieces, again = tmp_path / "tiny.gguf", tmp_path / "pieces", tmp_path / "again"
    for command in ((gpt, gguf), (gguf, pieces, "--tensor-parallel", 8), (pieces, again)):
        done = convert(*command)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", ""), command
    assert len(list(pieces.glob("model.layers.0.attention.dense.weight.*.bin"))) == 8
    said = two_turns(start(model=gpt))
    for model in (gguf, pieces, again):
        assert two_turns(start(model=model)) == said, model


def test_output_respects_the_umask(gpt, tmp_path):
    old = os.umask(0o022)
    try:
        assert convert(gpt, tmp_path / "tiny.gguf").returncode == 0
    finally:
        os.umask(old)
    assert stat.S_IMODE((tmp_path / "tiny.gguf").stat().st_mode) == 0o644


def test_refusals(gpt, tmp_path):
    refused = convert(gpt, gpt)
    assert (refused.returncode, refused.stderr) == (1, f"ringside-convert: {gpt} already exists\n")
    for wrong in ((gpt,), (gpt, tmp_path / "m", "--format", "onnx"), (gpt, tmp_path / "m", "--tensor-parallel", 0)):
        assert convert(*wrong).returncode == 2, wrong
    assert convert("--help").returncode == 0
    full = convert(gpt, "/dev/full/m.gguf")
    assert full.returncode == 1 and full.stderr.startswith("ringside-convert: ")
    assert sorted(path.name for path in tmp_path.iterdir() if path.name != "server.log") == ["gpt"]
