"""docs/operating/first-day.md, command by command, in a clean folder: the build is the finished one, and the model comes from
a local mirror.

    scripts/python -m pytest tests/packaging/first_day_test.py
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import BUILD, ROOT

sys.path[:0] = [str(ROOT / "tests/system"), str(ROOT / "tests/clients")]
import tiny_model  # noqa: E402
from model_server import ModelServer  # noqa: E402

GUIDE = (ROOT / "docs/operating/first-day.md").read_text()
PATIENCE_S = int(os.environ.get("TEST_PATIENCE_S", 120))


def steps():
    """(title, commands) of each step."""
    return [(title, "\n".join(re.findall(r"```sh\n(.*?)```", body, re.S))) for title, body in re.findall(r"^## (\d+\. .*?)\n(.*?)(?=^## |\Z)", GUIDE, re.S | re.M)]


@pytest.fixture
def day(tmp_path, tmp_path_factory):
    """Runs the guide in a new home folder; returns the folder, and the output of each step."""
    folder = tmp_path / "sources"
    (folder / "scripts").mkdir(parents=True)
    # The build of the preset is checked below; here it is this one.
    (folder / "scripts/build").write_text('#!/bin/sh\n[ "$*" = package ]\n')
    (folder / "scripts/install").write_text('#!/bin/sh\n[ $# = 0 ]\n')
    for script in ("build", "install"):
        (folder / "scripts" / script).chmod(0o700)
    (folder / "build").mkdir()
    (folder / "build/package").symlink_to(BUILD)
    hub = ModelServer()
    model = Path(tiny_model.make(tmp_path_factory.mktemp("model") / "tiny.gguf")).read_bytes()
    reference = re.search(r"ringside pull hf:(\S+?):(\w+)\)", GUIDE)
    hub.add_repository(reference[1], {f"{reference[1].split('/')[1]}-{reference[2]}.gguf": model})
    # The port is the guide's, so that its commands need none; another server may use it on this machine.
    with subprocess.Popen(["python3", "-c", "import socket; s = socket.create_server(('127.0.0.1', 0)); print(s.getsockname()[1])"], stdout=subprocess.PIPE,
                          text=True) as probe:
        port = int(probe.stdout.read())
    environment = {"HOME": str(tmp_path), "PATH": os.environ["PATH"], "LANG": "C.UTF-8", "HF_ENDPOINT": hub.url, "RINGSIDE_PORT": str(port),
                   "RINGSIDE_URL": f"http://127.0.0.1:{port}"}
    script = "set -eu\ntrap 'kill ${SERVER:-0} 2> /dev/null || true' EXIT\n"
    for title, commands in steps():
        script += f"echo '## {title}'\n{commands}\n"
    done = subprocess.run(["bash", "-c", script], cwd=folder, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE_S)
    hub.shutdown()
    assert done.returncode == 0, done.stdout + done.stderr + (tmp_path / "ringside/log").read_text(errors="replace")
    return tmp_path, dict(re.findall(r"^## (\d+)\. .*?\n(.*?)(?=^## |\Z)", done.stdout, re.S | re.M))


def test_the_guide_has_ten_steps_with_commands():
    assert [title.split(".")[0] for title, _ in steps()] == [str(i) for i in range(1, 11)]
    assert all(commands for _, commands in steps())


def test_the_day(day):
    home, printed = day
    print(*printed.values(), sep="\n")  # shown where an assertion fails
    assert printed["1"].splitlines()[-1].startswith("ringside-server ")
    assert "operator" in printed["3"] and "alice" in printed["3"]
    assert re.search(r"is ready\.\n.*http://127\.0\.0\.1:\d+\n", printed["5"])
    assert re.search(r"^  1 +conv_\w+ .* 2 messages", printed["6"], re.M)
    assert [line.split()[:2] for line in printed["7"].splitlines()[1:]] == [["alice", "1"], ["all", "1"]]
    assert "1 sound, 0 damaged" in printed["8"]
    assert "export.key" in printed["9"]
    assert "1 sound, 0 damaged" in printed["10"]
    assert len(printed["10"].strip().splitlines()[-1]) > 0
    assert {path.name for path in home.iterdir()} >= {"ringside", "sources"}
    assert (home / "ringside/store.old").is_dir()
    # Settings and messages are apart: standard output had the address alone.
    assert re.fullmatch(r".* http://127\.0\.0\.1:\d+\n", (home / "ringside/address").read_text())


def test_the_package_is_built_without_tests(tmp_path):
    """The preset configures the programs, and no test."""
    configure = ["cmake", "--preset", "package", "-B", tmp_path / "build"]
    done = subprocess.run(configure, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    targets = subprocess.run(["ninja", "-C", tmp_path / "build", "-t", "targets", "all"], capture_output=True, text=True, check=True).stdout
    names = {line.split(":")[0] for line in targets.splitlines()}
    assert {"bin/ringside", "bin/ringside-server", "manual"} <= names
    assert not [name for name in names if name.endswith(("_test", "_fuzz")) or name.startswith("tests/")]
