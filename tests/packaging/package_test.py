"""The Debian package: its metadata, its content, and that its programs run.

scripts/python -m pytest tests/packaging/package_test.py
"""

import os
import subprocess

import pytest
from conftest import BUILD, CHAT_PROGRAMS, make_clone


LIBRARIES = {"libc6", "libssl3", "procps", "systemd"}


def output(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def make(folder, **variables):
    # Fast rather than small.
    variables |= {"CPACK_DEBIAN_COMPRESSION_TYPE": "none"}
    made = ["cpack", "-G", "DEB", "--config", BUILD / "CPackConfig.cmake", "-B", folder]
    given = [word for name, value in variables.items() for word in ("-D", f"{name}={value}")]
    subprocess.run(made + given, check=True, capture_output=True)
    [package] = folder.glob("*.deb")
    return package


def fields_of(package, *names):
    return [output("dpkg-deb", "-f", package, name).removesuffix("\n") for name in names]


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    return make(tmp_path_factory.mktemp("package"))


@pytest.fixture(scope="module")
def unpacked(package):
    subprocess.run(["dpkg-deb", "-R", package, package.parent / "unpacked"], check=True)
    return package.parent / "unpacked"


def test_package_declares_version_and_dependencies(package, programs):
    name, its_version, depends = fields_of(package, "Package", "Version", "Depends")
    assert (name, its_version) == ("ringside", programs[0].described["version"])
    assert LIBRARIES <= {need.split()[0] for need in depends.split(", ")}, "libraries, and what the unit and the scripts call"


def test_gpu_package_replaces_the_cpu_package(package, programs, tmp_path):
    """Built from the programs without CUDA: the metadata is the same."""
    version = programs[0].described["version"]
    gpu = make(tmp_path, CPACK_RINGSIDE_CUDA="13.0", CPACK_RINGSIDE_GPUS="8.0, 9.0")
    assert gpu.name == f"ringside-cuda_{version}_{output('dpkg', '--print-architecture').strip()}.deb"
    for each, name, other in ((package, "ringside", "ringside-cuda"), (gpu, "ringside-cuda", "ringside")):
        assert fields_of(each, "Package", "Version", "Conflicts", "Replaces") == [name, version, other, other]
    depends, recommends, provides, description = fields_of(gpu, "Depends", "Recommends", "Provides", "Description")
    needed = {need.split()[0] for need in depends.split(", ")}
    assert LIBRARIES | {"cuda-cudart-13-0", "libcublas-13-0"} <= needed, "as NVIDIA's repository names them"
    assert (recommends, provides) == ("libcuda1", f"ringside (= {version})")
    assert description.splitlines()[0].endswith(" (CUDA)") and "compute capability 8.0, 9.0 " in description
    assert "CUDA" not in "".join(fields_of(package, "Depends", "Description"))


def test_settings_are_the_only_file_outside_usr(package, unpacked):
    assert (unpacked / "DEBIAN/conffiles").read_text() == "/etc/ringside/server.yaml\n"
    listed = [line.split() for line in output("dpkg-deb", "-c", package).splitlines()]
    assert {line[1] for line in listed} == {"root/root"}
    files = [line[5] for line in listed if not line[5].endswith("/")]
    assert "./etc/ringside/server.yaml" in files
    assert [file for file in files if not file.startswith("./usr/")] == ["./etc/ringside/server.yaml"]


def test_maintainer_scripts_run(unpacked):
    for name in ("postinst", "prerm", "postrm"):
        script = unpacked / "DEBIAN" / name
        assert script.stat().st_mode & 0o777 == 0o755
        subprocess.run(["sh", "-n", script], check=True)


def test_packaged_programs_run(unpacked, programs):
    version = programs[0].described["version"]
    assert output(unpacked / "usr/bin/ringside-server", "--version") == f"ringside-server {version}\n"
    for name in ("ringside", "ringside-bench", "ringside-convert"):
        assert output(unpacked / "usr/bin" / name, "--version") == f"{name} {version}\n"


def test_chat_takes_the_programs_of_a_package_of_its_sources(package, tmp_path):
    root = make_clone(tmp_path / "root", package)
    packaged = output(root / "scripts/programs").strip()
    assert packaged.startswith(f"{root}/build/packaged-")
    assert all(os.access(f"{packaged}/{name}", os.X_OK) for name in CHAT_PROGRAMS)


def test_the_server_is_built_with_its_image_decoder():
    assert "ringside-image-decoder" in output("ninja", "-C", BUILD, "-t", "query", "bin/ringside-server")
