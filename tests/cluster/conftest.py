"""Fixtures of the cluster tests: machines on a private network, and PostgreSQL on two machines."""

import os
import shutil
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "system"))
import tiny_model  # noqa: E402
from network import Machine, NotAllowed, isolate  # noqa: E402
from postgres_cluster import PostgresCluster, programs  # noqa: E402

SERVERS = 3


@pytest.fixture(scope="session")
def private_network():
    if os.geteuid() != 0 or any(shutil.which(name) is None for name in ("ip", "nsenter", "setpriv")):
        pytest.skip("network namespaces need root, iproute2 and util-linux")
    try:
        isolate()
    except NotAllowed as reason:
        pytest.skip(f"no network namespaces here: {reason}")


@pytest.fixture(scope="module")
def machines(private_network):
    """Five machines: `a`, `b` for the database, then one for each server."""
    made = [Machine(name, number) for name, number in zip(("a", "b", *(f"s{i}" for i in range(SERVERS))), range(11, 20))]
    yield made
    for machine in made:
        machine.close()


@pytest.fixture(scope="module")
def postgres(machines):
    """A primary and its synchronous standby, started once per file."""
    if programs() is None:
        pytest.skip("PostgreSQL is not installed")
    with PostgresCluster(machines[:2]) as cluster:
        yield cluster


@pytest.fixture
def database(postgres):
    """URL of an empty database."""
    postgres.heal()
    return postgres.new_database()


@pytest.fixture(scope="session")
def model(tmp_path_factory):
    return tiny_model.make(tmp_path_factory.mktemp("model") / "tiny.gguf")
