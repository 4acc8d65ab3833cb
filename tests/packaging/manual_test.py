"""The manual pages: they describe every option, and lint tools find nothing wrong.

scripts/python -m pytest tests/packaging/manual_test.py
"""

import gzip
import os
import re
import subprocess
import sys

import pytest
from conftest import BUILD, ROOT

PAGES = {"ringside-server": "man8/ringside-server.8.gz"} | {
    name: f"man1/{name}.1.gz" for name in ("ringside", "ringside-bench", "ringside-convert")
}


@pytest.fixture(params=PAGES)
def page(request, installed):
    return installed / "share/man" / PAGES[request.param]


def shown(page):
    """The page as displayed, without bold."""
    wide = os.environ | {"MANWIDTH": "200", "LC_ALL": "C.UTF-8", "MAN_KEEP_FORMATTING": ""}
    text = subprocess.run(["man", "-l", page], check=True, capture_output=True, text=True, env=wide).stdout
    return re.sub(".\b", "", text)


def test_manual_has_every_option_and_command(installed, programs):
    for program in programs:
        text = shown(installed / "share/man" / PAGES[program.name])
        words = re.sub(r"\s+", " ", text)  # lines are justified with blanks
        for command in program.all():
            assert command.name in text
            for option in command.options:
                flags = re.escape(", ".join(option.flags))
                value = re.escape(" " + option.value if option.value else "")
                assert re.search(rf"(?m)^ +{flags}{value}( |$)", text), (command.name, option.flags)
                assert " ".join(option.help.split()[:3]) in words, (command.name, option.flags)
            for argument in command.arguments:
                assert re.search(rf"(?m)^ +{argument.name}( |$)", text), (command.name, argument.name)


def test_manual_has_exit_codes_and_examples(installed, programs):
    server, *_ = programs
    text = shown(installed / "share/man" / PAGES["ringside-server"])
    for code, meaning in server.described["exit_codes"]:
        assert re.search(rf"(?m)^ +{code} +{re.escape(meaning)}$", text), code
    for command, _ in server.described["examples"]:
        assert command in text


def test_man_reports_no_warning(page):
    result = subprocess.run(["man", "--warnings", "-E", "UTF-8", "-l", "-Tutf8", "-Z", page], capture_output=True, text=True)
    assert (result.returncode, result.stderr) == (0, "")


def test_mandoc_reports_no_warning(page):
    result = subprocess.run(["mandoc", "-T", "lint", "-W", "style", page], capture_output=True, text=True)
    assert result.stdout == ""


def test_build_of_a_given_date_is_reproducible(tmp_path):
    for name in ("one", "other"):
        make = [
            sys.executable,
            ROOT / "scripts/packaging/make_manual.py",
            BUILD / "bin",
            tmp_path / name,
        ]
        subprocess.run(make, check=True, env=os.environ | {"SOURCE_DATE_EPOCH": "86400"})
    made = [
        {file.relative_to(tmp_path / name): file.read_bytes() for file in (tmp_path / name).rglob("*.*")}
        for name in ("one", "other")
    ]
    assert made[0] == made[1]
    assert b" 1970-01-02 " in gzip.decompress((tmp_path / "one" / PAGES["ringside"]).read_bytes())
