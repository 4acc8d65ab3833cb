"""Shared by the tests of this folder: an installation in a temporary folder, and the programs' descriptions of their
command lines."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("RINGSIDE_TEST_BUILD", ROOT / "build/cpu"))
sys.path.insert(0, str(ROOT / "scripts/packaging"))

CHAT_PROGRAMS = ("ringside", "ringside-server", "ringside-image-decoder")


def make_clone(root, package):
    """A clone of these sources with a package in dist/, which installs and compiles nothing."""
    shutil.copytree(ROOT / "scripts", root / "scripts")
    for name in ("CMakeLists.txt", "base", "cache", "clients", "engine", "kernels", "session", "tools", "ws"):
        (root / name).symlink_to(ROOT / name)
    (root / "dist").mkdir()
    shutil.copy(package, root / "dist")
    for name in ("install", "build"):
        (root / "scripts" / name).write_text("#!/bin/sh\n")
    return root


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
