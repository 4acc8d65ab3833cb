"""Runs the README's OpenAI SDK example as printed; only the port differs."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from server import ROOT, Server

sys.path.append(str(ROOT / "tests/system"))
import tiny_model  # noqa: E402

SECTION = re.search(r"^### The OpenAI SDK\n(.*?)(?=^##)", (ROOT / "README.md").read_text(), re.DOTALL | re.MULTILINE)[1]
EXAMPLE = re.search(r"^```python\n(.*?)^```", SECTION, re.DOTALL | re.MULTILINE)[1]
ADDRESS = "http://127.0.0.1:8080/"


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return tiny_model.make(tmp_path_factory.mktemp("model") / "tiny.gguf")


def run(model, *flags):
    """Runs the example against a server with these flags. A hang is a failure."""
    assert EXAMPLE.count(ADDRESS) == 1
    server = Server("--model", str(model), "--threads", "1", *flags)
    try:
        example = EXAMPLE.replace(ADDRESS, server.url + "/")
        return subprocess.run([sys.executable, "-c", example], capture_output=True, text=True, timeout=120)
    finally:
        server.stop()


def test_prints_an_answer(model):
    done = run(model, "--max-output-tokens", "40", "--temperature", "0")
    assert done.returncode == 0, done.stderr
    assert len(done.stdout) > 10 and done.stderr == ""


def test_prints_the_servers_message_on_refusal(model):
    done = run(model, "--session-len", "16")
    assert done.returncode != 0
    assert "maximum context length is 16 tokens" in done.stderr, done.stderr


def test_names_the_missing_package():
    wanted = Path(ROOT / "scripts/requirements.txt").read_text()
    package = re.search(r"pip install ['\"]([^'\"]+)['\"]", SECTION)[1]
    assert package == "openai[realtime]" and f"\n{package}==" in wanted
