"""The Slurm script with fakes of srun and scontrol: it starts the server again after a failure, and not after an orderly
stop or an error that another start does not cure.

    scripts/python -m pytest tests/deploy/slurm_test.py
"""

import os
import re
import subprocess

import pytest
from conftest import DEPLOY

SCRIPT = DEPLOY / "slurm/ringside.sbatch"


@pytest.fixture
def job(tmp_path):
    """Runs the script; each srun writes down its arguments and exits with the next code. Returns exit code, output, and the
    arguments of each srun."""
    def run(codes, arguments=(), **environment):
        (tmp_path / "codes").write_text("\n".join(map(str, codes)) + "\n")
        programs = {
            "srun": f'echo "$@" >> {tmp_path}/calls\ncode=$(head -n 1 {tmp_path}/codes)\nsed -i 1d {tmp_path}/codes\n'
                    '[[ $code == TERM ]] && kill -TERM $PPID && code=143\nexit $code',
            "scontrol": '[[ $* == "show hostnames node[3-4]" ]] && printf "node3\\nnode4\\n"',
        }
        for name, body in programs.items():
            (tmp_path / name).write_text(f"#!/bin/bash\n{body}\n")
            (tmp_path / name).chmod(0o755)
        (tmp_path / "calls").write_text("")
        known = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "HOME": "/home/ada", "SLURM_JOB_NODELIST": "node[3-4]", "SLURM_JOB_NUM_NODES": "2",
                 "RESTART_DELAY": "0"}
        done = subprocess.run([SCRIPT, *arguments], env=known | environment, capture_output=True, text=True, timeout=60)
        return done.returncode, done.stdout + done.stderr, (tmp_path / "calls").read_text().splitlines()

    return run


def test_failures_start_the_server_again(job):
    code, output, calls = job([137, 76, 1, 0], STORE_PATH="/shared/ringside")
    assert code == 0 and len(calls) == 4 and len(set(calls)) == 1
    assert "http://node3:8080" in output and "--store-path /shared/ringside" in calls[0] and "--tensor-parallel-size 2" in calls[0]


@pytest.mark.parametrize("code", [73, 74, 78])
def test_errors_that_a_start_does_not_cure_end_the_job(job, code):
    assert job([code], STORE_PATH="/shared/ringside")[0::2][0] == code


def test_a_stopped_job_does_not_start_again(job):
    code, _, calls = job(["TERM", 0], STORE_PATH="/shared/ringside")
    assert code == 0 and len(calls) == 1


def test_a_store_is_required(job):
    code, output, calls = job([0])
    assert code == 78 and "STORE_PATH" in output and calls == []
    code, _, calls = job([0], ["--slots", "4"], RINGSIDE_STORE_URL="postgresql://db/ringside")
    assert code == 0 and "--store-path" not in calls[0] and calls[0].endswith("--slots 4")


def test_options_exist(options):
    """All long options in the commands of the script are the server's, except srun's."""
    used = set(re.findall(r"--([a-z-]+)", re.sub(r"(?m)^ *#.*$", "", SCRIPT.read_text()))) - {"mpi", "kill-on-bad-exit"}
    assert {"model", "host", "keys-file", "store-path"} <= used <= set(options)
