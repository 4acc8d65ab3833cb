"""The Debian package: what it says of itself, what is in it, and that the programs in it run.

scripts/python -m pytest tests/packaging/package_test.py
"""

import subprocess

import pytest
from conftest import BUILD


def output(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    folder = tmp_path_factory.mktemp("package")
    # Fast, not small.
    made = ["cpack", "-G", "DEB", "--config", BUILD / "CPackConfig.cmake", "-B", folder, "-D", "CPACK_DEBIAN_COMPRESSION_TYPE=none"]
    subprocess.run(made, check=True, capture_output=True)
    [package] = folder.glob("*.deb")
    return package


@pytest.fixture(scope="module")
def unpacked(package):
    subprocess.run(["dpkg-deb", "-R", package, package.parent / "unpacked"], check=True)
    return package.parent / "unpacked"


def test_it_names_its_version_and_what_it_needs(package, programs):
    fields = dict(line.split(": ", 1) for line in output("dpkg-deb", "-f", package, "Package", "Version", "Depends").splitlines())
    assert (fields["Package"], fields["Version"]) == ("ringside", programs[0].described["version"])
    needed = {need.split()[0] for need in fields["Depends"].split(", ")}
    assert {"libc6", "libssl3", "libsystemd0", "procps", "systemd"} <= needed, "libraries, and what the unit and the scripts call"


def test_settings_are_the_operators_and_all_else_is_the_packages(package, unpacked):
    assert (unpacked / "DEBIAN/conffiles").read_text() == "/etc/ringside/server.yaml\n"
    listed = [line.split() for line in output("dpkg-deb", "-c", package).splitlines()]
    assert {line[1] for line in listed} == {"root/root"}
    files = [line[5] for line in listed if not line[5].endswith("/")]
    assert "./etc/ringside/server.yaml" in files
    assert [file for file in files if not file.startswith("./usr/")] == ["./etc/ringside/server.yaml"]


def test_the_scripts_of_the_package_can_be_run(unpacked):
    for name in ("postinst", "prerm", "postrm"):
        script = unpacked / "DEBIAN" / name
        assert script.stat().st_mode & 0o777 == 0o755
        subprocess.run(["sh", "-n", script], check=True)


def test_its_programs_run(unpacked, programs):
    version = programs[0].described["version"]
    assert output(unpacked / "usr/bin/ringside-server", "--version") == f"ringside-server {version}\n"
    assert output(unpacked / "usr/bin/ringside", "--version") == f"ringside {version}\n"
