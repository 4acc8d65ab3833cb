"""The documents match the programs: every flag, metric and file that they name exists.

    scripts/python -m pytest tests/system/operating/documents_test.py
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from conversation import Conversation
from server_process import ROOT, run, server_path

OPERATING = sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "docs/operating").glob("*.md"))
DOCUMENTS = ["README.md", "CONTRIBUTING.md", "SECURITY.md", "docs/BENCHMARKS.md", "docs/CLIENTS.md", "docs/SCALING.md", *OPERATING]


def read(name):
    return (ROOT / name).read_text()


def flags_of_the_server():
    help = subprocess.run([server_path(), "--help"], capture_output=True, text=True, check=True, env={}).stdout
    spellings = [line.strip().split("  ")[0] for line in help.splitlines() if line.startswith("  -")]
    return {flag for spelling in spellings for flag in re.findall(r"--[a-z][a-z-]*", spelling)}


def flags_of_the_client():
    client = os.environ.get("RINGSIDE_CLIENT") or ROOT / "build/cpu/bin/ringside"
    verbs = (["chat"], ["run"], ["models"], ["pull"], ["sessions", "list"], ["sessions", "verify"], ["owners"], ["drain"], ["engines"], ["bench", "append"], ["bench", "load"], ["eval", "perplexity"],
             ["eval", "last-word"], ["eval", "choices"], ["convert"])
    helps = [subprocess.run([client, *verb, "--help"], capture_output=True, text=True, check=True).stdout for verb in verbs]
    return {flag for help in helps for flag in re.findall(r"--[a-z][a-z-]*", help)}


def test_the_page_of_options_is_what_the_server_describes():
    page = [sys.executable, ROOT / "scripts/options_page.py", "--server", server_path(), "--check"]
    done = subprocess.run(page, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    rows = set(re.findall(r"--[a-z][a-z-]*", "\n".join(line for line in read("docs/operating/options.md").splitlines() if line.startswith("| `-"))))
    assert len(rows) > 50 and rows == flags_of_the_server()


def requests_of_the_server():
    """The request kinds, each with its fields and their policies."""
    text = subprocess.run([server_path(), "--describe-requests"], capture_output=True, text=True, check=True, env={}).stdout
    kinds = {}
    for line in text.splitlines():
        kind, field, _, policy, _, _ = line.split("\t")
        kinds.setdefault(kind, {})[field] = policy
    return kinds


def test_every_field_that_is_read_is_in_the_protocol():
    words = set(re.findall(r"\w+", read("ws/PROTOCOL.md")))
    fields = {name for kind in requests_of_the_server().values() for name, policy in kind.items()
              if policy in {"read", "clamp", "lenient"}}
    assert len(fields) > 100
    assert {name for name in fields if name.split(".")[-1] not in words} == set()


def test_the_table_of_a_create_names_its_fields():
    fields = requests_of_the_server()["response.create"]
    rows = read("ws/PROTOCOL.md").split("| field | meaning |", 1)[1].split("\n\n", 1)[0].splitlines()[2:]
    named = {name for row in rows for name in re.findall(r"`(\w+)[^`]*`", row.split("|")[1])}
    assert len(named) > 30
    assert named - set(fields) == set()


@pytest.mark.parametrize("name", ["README.md", "docs/CLIENTS.md", *OPERATING])
def test_documented_flags_exist(name):
    keys = {"--owner", "--expires", "--scopes", "--overlap", "--turns", "--tokens-per-minute", "--sessions", "--chains",
            "--text-mb", "--stored-mb", "--connections"}  # of `ringside keys`
    builds = {"--peer", "--preset", "--build", "--target", "--install", "--prefix", "--chat", "--server"}  # of scripts and cmake
    # systemd, container runtimes, Debian tools
    others = {"--now", "--offline", "--cap-drop", "--file", "--format", "--read-only", "--stop-timeout", "--userspec", "--variant",
              "--no-install-recommends"}
    # mpirun, Slurm
    starters = {"--bind-to", "--cpus-per-task", "--enable-recovery", "--gpus-per-node", "--gpus-per-task", "--kill-on-bad-exit",
                "--mca", "--mem", "--mpi", "--nodelist", "--nodes", "--ntasks-per-node", "--signal"}
    agents = {"--backend", "--local-provider", "--oss", "--reasoning-effort"}  # of the clients that CLIENTS.md starts
    kubernetes = {"--from-file", "--from-literal", "--namespace", "--set"}  # of kubectl and helm
    hidden = {"--describe", "--describe-requests"}  # for tools
    named = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", read(name)))
    assert named - flags_of_the_server() - flags_of_the_client() - keys - builds - others - starters - agents - kubernetes - hidden == set()


@pytest.mark.parametrize("name", DOCUMENTS)
def test_referenced_files_exist(name):
    files = set(re.findall(r"(?:\./)?(scripts/\w+(?:\.\w+)?)", read(name)))
    assert [file for file in files if not (ROOT / file).exists()] == []


async def two_turns(port):
    async with Conversation(port) as talk:
        for _ in range(2):
            await talk.ask("Hello.", max_output_tokens=2)


def test_documented_metrics_exist(start, store, model):
    there = set()
    for flags, one in ((("--store-path", store), model), (("--models-dir", Path(model).parent), None)):
        server = start(*flags, model=one)
        run(two_turns(server.port))
        there |= set(re.findall(r"^# HELP (\w+)", server.get("/metrics")[1], re.MULTILINE))
        server.stop()
    named = set(re.findall(r"ringside_[a-z][a-z0-9_]+", "".join(map(read, OPERATING))))
    others = {"ringside_kv_used_ratio", "ringside_app"}  # a query of deploy/kubernetes, and a role of deploy/postgresql
    assert len(named) > 10 and named - there - others == set()
