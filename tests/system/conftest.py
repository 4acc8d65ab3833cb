"""Fixtures: the tiny model, a store folder, and servers that are stopped with the test."""

import pytest
import tiny_model
from server_process import ServerProcess


@pytest.fixture(scope="session")
def model(tmp_path_factory):
    return tiny_model.make(tmp_path_factory.mktemp("model") / "tiny.gguf")


@pytest.fixture
def start(model, tmp_path):
    """Starts a server with these flags and waits until it is ready, unless ready=False."""
    servers = []

    def start(*flags, ready=True, model=model, **options):
        servers.append(ServerProcess(model, "--threads", 1, *flags, folder=tmp_path, **options))
        return servers[-1].wait_until_ready() if ready else servers[-1]

    yield start
    for server in servers:
        if server.running():
            server.kill()


@pytest.fixture
def store(tmp_path):
    return tmp_path / "store"
