"""The wheel: its programs need nothing but glibc, and run from a fresh virtual environment.

scripts/python -m pytest tests/packaging/wheel_test.py
"""

import os
import re
import shutil
import subprocess
import sys
import urllib.request
import zipfile

import pytest
from conftest import BUILD, CHAT_PROGRAMS, ROOT, make_clone

sys.path.insert(0, str(ROOT / "tests/system"))
import tiny_model  # noqa: E402
from server_process import ServerProcess  # noqa: E402

PROGRAMS = ("ringside", "ringside-server", "ringside-bench", "ringside-convert", "ringside-image-decoder")
# The libraries of glibc, which every supported system has.
GLIBC = re.compile(r"lib(c|m|dl|rt|pthread|resolv)\.so\.\d+|ld-linux-[\w-]+\.so\.\d")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """Packs the programs of this build; they are linked again, but not compiled."""
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run([ROOT / "scripts/wheel", BUILD, folder], check=True, capture_output=True)
    [path] = folder.iterdir()
    return path


@pytest.fixture(scope="module")
def environment(wheel, tmp_path_factory):
    """A fresh virtual environment with nothing but the wheel."""
    folder = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    subprocess.run([folder / "bin/python", "-m", "pip", "install", "--quiet", "--no-index", wheel], check=True)
    return folder


def run(environment, name, *words, text="", **variables):
    return subprocess.run([environment / "bin" / name, *words], input=text, capture_output=True, text=True, timeout=300,
                          env={"HOME": str(environment), "PATH": "/usr/bin:/bin", **variables})


def test_runs_on_every_system_since_glibc_2_28(wheel):
    name, version, python, abi, platforms = wheel.name.removesuffix(".whl").split("-")
    assert (name, python, abi) == ("ringside", "py3", "none")
    releases = [tuple(map(int, re.match(r"manylinux_(\d+)_(\d+)_", each).groups()))
                for each in platforms.split(".") if each.startswith("manylinux_")]
    assert releases and max(releases) <= (2, 28), platforms


def test_wheel_of_another_processor_has_its_tag(tmp_path):
    """With stand-ins for the programs, in a build folder that has nothing to build."""
    compiler = shutil.which("aarch64-linux-gnu-gcc")
    if compiler is None:
        pytest.skip("aarch64-linux-gnu-gcc is missing")
    build, floor = tmp_path / "build", ROOT / "scripts/packaging/wheel/glibc_floor.c"
    (build / "wheel/bin").mkdir(parents=True)
    (build / "CMakeCache.txt").write_text(
        "CMAKE_GENERATOR:INTERNAL=Ninja\nCMAKE_MAKE_PROGRAM:FILEPATH=ninja\nCMAKE_PROJECT_NAME:STATIC=ringside\n")
    (build / "build.ninja").write_text("build wheel_programs: phony\n")
    (tmp_path / "main.c").write_text("#include <sys/stat.h>\nint main(void) { struct stat s; return stat(\"/\", &s); }\n")
    subprocess.run([compiler, "-O2", tmp_path / "main.c", floor, "-lm", "-o", build / "wheel/bin" / PROGRAMS[0]],
                   check=True)
    for name in PROGRAMS[1:]:
        shutil.copy(build / "wheel/bin" / PROGRAMS[0], build / "wheel/bin" / name)
    for folder in ("man1", "man8", "bash", "fish", "zsh"):
        (build / "scripts/packaging/manual" / folder).mkdir(parents=True)
        (build / "scripts/packaging/manual" / folder / "page").write_text("page")
    subprocess.run([ROOT / "scripts/wheel", build, tmp_path / "dist"], check=True, capture_output=True)
    [wheel] = (tmp_path / "dist").iterdir()
    tag = re.fullmatch(r"ringside-[\d.]+-py3-none-manylinux_2_(\d+)_aarch64\.whl", wheel.name)
    assert tag and int(tag[1]) <= 28, wheel.name


def test_programs_need_only_glibc(environment):
    for name in PROGRAMS:
        dynamic = subprocess.run(["readelf", "-d", environment / "bin" / name], check=True, capture_output=True, text=True)
        needed = re.findall(r"\(NEEDED\).*\[(.+)\]", dynamic.stdout)
        assert needed and all(map(GLIBC.fullmatch, needed)), (name, needed)


def test_contains_manual_licenses_and_the_digest_of_its_sources(wheel):
    with zipfile.ZipFile(wheel) as archive:
        files = {re.sub(r"^ringside-[^/]*\.(data|dist-info)/", r"\1/", path): path for path in archive.namelist()}
        sources = archive.read(files["data/data/share/ringside/sources"]).decode()
    assert {f"data/scripts/{name}" for name in PROGRAMS} <= set(files)
    assert {"data/data/share/man/man1/ringside.1.gz", "data/data/share/bash-completion/completions/ringside"} <= set(files)
    assert {"dist-info/licenses/LICENSE", "dist-info/licenses/librocksdb-dev"} <= set(files)
    assert sources == subprocess.run([ROOT / "scripts/sources"], check=True, capture_output=True, text=True).stdout


def test_programs_have_the_version_of_the_wheel(wheel, environment):
    for name in PROGRAMS[:-1]:
        assert run(environment, name, "--version").stdout == f"{name} {wheel.name.split('-')[1]}\n"


def test_runs_a_model_with_its_own_server(environment, tmp_path):
    model = tiny_model.make(tmp_path / "tiny.gguf")
    done = run(environment, "ringside", "run", str(model), "--max-tokens", "8", text="Hello")
    assert done.returncode == 0 and done.stdout.strip(), done


def test_server_chooses_its_instruction_set_and_has_the_page(environment, tmp_path):
    model = tiny_model.make(tmp_path / "tiny.gguf")
    server = ServerProcess(model, folder=tmp_path, binary=environment / "bin/ringside-server").wait_until_ready()
    with urllib.request.urlopen(f"http://127.0.0.1:{server.port}/") as answer:
        assert answer.headers.get_content_type() == "text/html" and b"<script" in answer.read()
    server.stop()
    described = run(environment, "ringside-server", "--describe").stdout
    assert all(name in described for name in ("portable", "avx2", "avx512", "amx")) or os.uname().machine != "x86_64"


def test_chat_takes_the_programs_of_a_wheel_of_its_sources(wheel, tmp_path):
    root = make_clone(tmp_path / "root", wheel)
    programs = [str(root / "scripts/programs")]

    packaged = subprocess.run(programs, check=True, capture_output=True, text=True).stdout.strip()
    assert packaged.startswith(f"{root}/build/packaged-")
    assert all(os.access(f"{packaged}/{name}", os.X_OK) for name in CHAT_PROGRAMS)
    shutil.rmtree(root / "build")
    own = next((root / "dist").glob("*.whl"))
    foreign = own.rename(own.with_name(re.sub(r"_(x86_64|aarch64)\.whl$", "_riscv64.whl", own.name)))
    assert foreign.name != own.name
    assert subprocess.run(programs, check=True, capture_output=True, text=True).stdout.strip() == f"{root}/build/chat/bin"
    foreign.rename(own)
    (root / "scripts/packaging/changed.cmake").touch()
    compiled = subprocess.run(programs, check=True, capture_output=True, text=True).stdout.strip()
    assert compiled == f"{root}/build/chat/bin"
