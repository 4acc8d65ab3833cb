"""What the tests of this folder share: an installation in a folder of its own, and what the programs say of themselves."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("RINGSIDE_TEST_BUILD", ROOT / "build/cpu"))
sys.path.insert(0, str(ROOT / "scripts/packaging"))


@pytest.fixture(scope="session")
def installed(tmp_path_factory):
    """A folder in which everything lies as if it were /usr of a machine."""
    prefix = tmp_path_factory.mktemp("installed")
    subprocess.run(["cmake", "--install", BUILD, "--prefix", prefix], check=True, capture_output=True)
    return prefix


@pytest.fixture(scope="session")
def programs():
    """The commands of the server and of the client."""
    from command_line import ask_both

    return ask_both(BUILD / "bin/ringside-server", BUILD / "bin/ringside")
