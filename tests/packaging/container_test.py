"""Checks of the Containerfile that need no container: copied files exist and are not ignored, called programs exist,
and users, folders and addresses match the programs.

scripts/python -m pytest tests/packaging/container_test.py
"""

import fnmatch
import json
import os
import re
import shlex
import subprocess

import pytest
from conftest import ROOT

FILE = ROOT / "scripts/packaging/Containerfile"


@pytest.fixture(scope="module")
def steps():
    """(instruction, arguments) of each step, with continuation lines joined."""
    text = re.sub(r"\\\n", " ", "".join(line for line in FILE.read_text().splitlines(True) if not line.startswith("#")))
    return [(line.split(maxsplit=1)[0], line.split(maxsplit=1)[1]) for line in text.splitlines() if line.strip()]


def of(steps, instruction):
    return [rest for name, rest in steps if name == instruction]


def test_copied_files_exist(steps):
    left_out = (ROOT / ".dockerignore").read_text().split()
    copied = [shlex.split(rest) for rest in of(steps, "COPY")]
    assert [sources for *sources, _ in copied if sources == ["."]], "the sources"
    for *sources, target in copied:
        for source in sources:
            assert (ROOT / source).exists(), source
            parts = source.split("/")
            beginnings = ["/".join(parts[:length]) for length in range(1, len(parts) + 1)]
            assert not [name for name in left_out if any(fnmatch.fnmatch(part, name) for part in beginnings)], source
        assert target.startswith("/ringside") and (len(sources) == 1 or target.endswith("/"))
    tracked = subprocess.run(["git", "-C", ROOT, "ls-files"], check=True, capture_output=True, text=True).stdout.split("\n")
    lost = [name for name in tracked if name.split("/")[0] in left_out]
    assert lost == [], "nothing that the build needs is left out"


def test_packages_are_installed_before_the_sources_are_copied(steps):
    """So that a change of the sources does not reinstall the packages."""
    first, second = of(steps, "COPY")[:2]
    *sources, target = shlex.split(first)
    assert second.split()[0] == "."
    script, *more = shlex.split(of(steps, "RUN")[0])
    assert script == target + "install" and os.access(ROOT / "scripts/install", os.X_OK)
    read = set(re.findall(r"scripts/([\w.]+)", (ROOT / "scripts/install").read_text())) | {"install", "env.sh"}
    assert read - {"install"} <= {source.split("/")[1] for source in sources}, "and all that it reads"
    documented = re.search(r"scripts/install (dpkg-dev .*)", (ROOT / "docs/operating/install.md").read_text())[1]
    assert more == documented.split()
    for package in more:
        assert subprocess.run(["dpkg-query", "-W", package], capture_output=True).returncode == 0, package


def test_builds_with_the_presets(steps):
    presets = {preset["name"]: preset for preset in json.loads((ROOT / "CMakePresets.json").read_text())["configurePresets"]}
    [build] = [run for run in of(steps, "RUN") if run.startswith("cmake")]
    preset = re.search(r"--preset (\w+)", build)[1]
    folder = presets["base"]["binaryDir"].replace("${sourceDir}/", "").replace("${presetName}", preset)
    assert preset in presets and f"cmake --build {folder}" in build
    [pack] = [run for run in of(steps, "RUN") if run.startswith("cpack")]
    config, packages = re.search(r"--config (\S+) -B (\S+)", pack).groups()
    assert config == f"{folder}/CPackConfig.cmake"
    [install] = [run for run in of(steps, "RUN") if "apt-get install" in run]
    assert f"source={packages},target={packages}" in install and f"{packages}/*.deb" in install
    [option] = [name for name, value in presets[preset]["cacheVariables"].items() if value == "OFF"]
    assert f"option({option} " in (ROOT / "CMakeLists.txt").read_text()


def test_container_settings_match_the_programs(steps, programs):
    server, client = programs[:2]
    number, user = re.search(r"useradd .*--uid (\d+) .* (\w+)$", of(steps, "RUN")[3]).groups()
    assert of(steps, "USER") == [user] and f"user {number}" in (ROOT / "docs/operating/install.md").read_text()
    assert user == (ROOT / "scripts/packaging/sysusers.conf").read_text().split()[1]
    [volume] = of(steps, "VOLUME")
    settings = dict(word.split("=") for word in of(steps, "ENV")[0].split())
    assert settings["RINGSIDE_STORE_PATH"] == volume
    flags = {flag for option in server.options for flag in option.flags}
    assert {"--" + name.removeprefix("RINGSIDE_").lower().replace("_", "-") for name in settings} <= flags
    assert json.loads(of(steps, "ENTRYPOINT")[0]) == [server.name]
    name, command = json.loads(of(steps, "HEALTHCHECK")[0].split(" CMD ")[1])
    assert name == client.name and command in {below.path[-1] for below in client.commands}
    [port] = [option for option in server.options if "--port" in option.flags]
    assert of(steps, "EXPOSE")[0] in str(vars(port)), "the server's own"
