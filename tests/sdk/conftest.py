"""Fixtures: one server per test file, and stock SDK clients that change only base_url and the key."""

import openai
import pytest
from scripted import THINK, start, start_calling
from server import Server


@pytest.fixture(scope="session")
def server():
    server = Server("--slots", "4")
    yield server
    server.stop()


@pytest.fixture
def client(server):
    with openai.OpenAI(base_url=server.url + "/v1", api_key="anything", max_retries=0) as client:
        yield client
    assert server.alive()


@pytest.fixture
def connection(client):
    with client.responses.connect() as connection:
        yield connection


@pytest.fixture(scope="session")
def thinker(tmp_path_factory):
    """Its model reasons, then gives one answer."""
    server = start(THINK, tmp_path_factory.mktemp("model"))
    yield server
    server.stop()


@pytest.fixture(scope="session")
def caller(tmp_path_factory):
    """Its model calls a tool, then gives one answer."""
    server = start_calling(tmp_path_factory.mktemp("model"))
    yield server
    server.stop()
