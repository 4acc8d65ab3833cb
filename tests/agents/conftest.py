"""Fixtures: servers with models that give one fixed answer each, with nothing set but names that clients have for their models."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS / "system"), str(TESTS / "page")]
import scripted_model  # noqa: E402
from server_process import ServerProcess  # noqa: E402

WINDOW = 1 << 20  # tokens; the models have one for each byte, and what an agent sends has some 50,000


@pytest.fixture(scope="module")
def start(tmp_path_factory):
    """start(model): a server with it, as scripted_model.make takes it."""
    servers = []

    def start(model):
        folder = tmp_path_factory.mktemp("server")
        path = scripted_model.make(folder / "scripted.gguf", model, window=WINDOW)
        servers.append(ServerProcess(path, "--model-alias", "claude-*", "--model-alias", "gpt-*", "--store-path", folder / "store",
                                     "--log-level", "info", folder=folder))
        return servers[-1].wait_until_ready()

    yield start
    for server in servers:
        server.kill()


@pytest.fixture(scope="module")
def server(start):
    return start(scripted_model.THINK)


@pytest.fixture
def run(tmp_path):
    """run(program, argument...): what it writes to its standard output, in an empty folder that is its home."""

    def run(program, *arguments, folder=tmp_path, patience_s=600, **environment):
        done = subprocess.run([program, *map(str, arguments)], cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=patience_s, env=os.environ | {"HOME": str(folder)} | environment)
        assert done.returncode == 0, (done.stdout[-4000:], done.stderr[-4000:])
        return done.stdout

    return run
