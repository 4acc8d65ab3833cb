"""scripts/install knows the package names of each supported system by its os-release file, and refuses others.

scripts/python -m pytest tests/packaging/systems_test.py
"""

import subprocess

import pytest
from conftest import ROOT

NAMES = {  # Debian 12's name: the other names
    "g++": {"fedora": "gcc-c++"},
    "libboost1.81-dev": {"debian13": "libboost-dev", "ubuntu24.04": "libboost-dev", "fedora": "boost-devel"},
    "libopenmpi-dev": {"fedora": "openmpi-devel"},
    "librocksdb-dev": {"fedora": "rocksdb-devel"},
    "nlohmann-json3-dev": {"fedora": "json-devel"},
    "python3-venv": {"fedora": None},
    "tmux": {},
}
SUPPORTED = {
    "debian12": 'PRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\nVERSION_ID="12"\nID=debian\n',
    "debian13": 'PRETTY_NAME="Debian GNU/Linux 13 (trixie)"\nVERSION_ID="13"\nID=debian\n',
    # WSL has the file of its distribution.
    "ubuntu24.04": 'PRETTY_NAME="Ubuntu 24.04.3 LTS"\nVERSION_ID="24.04"\nID=ubuntu\nID_LIKE=debian\n',
    "fedora": 'ID=fedora\nVERSION_ID=43\nPRETTY_NAME="Fedora Linux 43 (Server Edition)"\n',
}
REFUSED = {
    "Ubuntu 22.04.5 LTS is too old": 'PRETTY_NAME="Ubuntu 22.04.5 LTS"\nVERSION_ID="22.04"\nID=ubuntu\n',
    "Debian GNU/Linux 11 (bullseye) is not": 'PRETTY_NAME="Debian GNU/Linux 11 (bullseye)"\nVERSION_ID="11"\nID=debian\n',
    "Arch Linux is not supported": 'PRETTY_NAME="Arch Linux"\nID=arch\n',
    "an unknown system is not supported": "",
}


@pytest.fixture
def list_packages(tmp_path):
    def run(release, **environment):
        (tmp_path / "os-release").write_text(release)
        command = [ROOT / "scripts/install", "--list", tmp_path / "os-release"]
        return subprocess.run(command, capture_output=True, text=True, env={"PATH": "/usr/bin:/bin", "HOME": "/"} | environment)

    return run


@pytest.mark.parametrize("system", SUPPORTED)
def test_names_of_a_supported_system(system, list_packages):
    result = list_packages(SUPPORTED[system])
    assert (result.returncode, result.stderr) == (0, "")
    listed = result.stdout.splitlines()
    for name, others in NAMES.items():
        expected = others.get(system, name)
        assert expected is None or expected in listed, "installed by this system's name"
        assert name == expected or name not in listed, "and by no other"
    assert len(set(listed)) == len(listed) and "chromium-headless-shell" not in listed and "" not in listed


@pytest.mark.parametrize("sentence", REFUSED)
def test_other_systems_are_refused_in_one_sentence(sentence, list_packages):
    result = list_packages(REFUSED[sentence])
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr.startswith(f"error: {sentence}") and result.stderr.count("\n") == 1


def test_packages_can_be_installed_by_hand(list_packages):
    assert list_packages(REFUSED["Arch Linux is not supported"], RINGSIDE_INSTALL="no").returncode == 0


def test_systems_of_the_table_are_those_of_the_script():
    rows = [line.split()[1:] for line in (ROOT / "scripts/packages.txt").read_text().splitlines() if line[:1] != "#"]
    assert {other.split("=")[0] for row in rows for other in row if "=" in other} <= SUPPORTED.keys()
