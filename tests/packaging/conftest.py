"""Shared by the tests of this folder: an installation in a temporary folder, and the programs' descriptions of their
command lines."""

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
    """A folder with the layout of a machine's /usr."""
    prefix = tmp_path_factory.mktemp("installed")
    subprocess.run(["cmake", "--install", BUILD, "--prefix", prefix], check=True, capture_output=True)
    return prefix


@pytest.fixture(scope="session")
def programs():
    """The commands of each program: server, client, ringside-bench, ringside-convert."""
    from command_line import ask_all

    return ask_all(BUILD / "bin")
