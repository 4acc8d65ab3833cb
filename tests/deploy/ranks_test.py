"""The script that starts a group of ranks on Kubernetes, with fakes of ssh and mpirun: it waits for every worker, and
passes SIGTERM to the server only.

    scripts/python -m pytest tests/deploy/ranks_test.py
"""

import os
import signal
import subprocess

import pytest
from conftest import KUBERNETES
from server_process import wait_for

SCRIPTS = KUBERNETES / "overlays/ranks"
# The first call finds no worker. mpirun starts the server as its child.
FAKES = {
    "ssh": 'echo "$@" >> calls; [[ $(wc -l < calls) -gt 1 ]]',
    "mpirun": 'echo "$@" > mpirun; trap "echo killed >> end; exit 1" TERM; ringside-server & while kill -0 $! 2>/dev/null; do wait $!; done; exit $CODE',
    "ringside-server": 'trap "echo stopped >> end; exit 0" TERM; touch ready; while [[ ! -e crash ]]; do sleep 0.05; done',
}


@pytest.fixture
def leader(tmp_path):
    """Starts the leader's script in a group of three with mpirun's exit code; returns the process."""
    (tmp_path / "secrets").mkdir()
    (tmp_path / "secrets/ssh-publickey").write_text("ssh-ed25519 AAAA group\n")
    for name, body in FAKES.items():
        (tmp_path / name).write_text(f"#!/bin/bash\ncd {tmp_path}\n{body}\n")
        (tmp_path / name).chmod(0o755)
    text = (SCRIPTS / "leader.sh").read_text().replace("/run/secrets/ssh", str(tmp_path / "secrets")).replace("/tmp/known_hosts", str(tmp_path / "known"))
    (tmp_path / "leader.sh").write_text(text)
    started = []

    def start(code=0):
        environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "HOSTNAME": "ranks-1", "LWS_LEADER_ADDRESS": "ranks-1.ranks.ringside",
                       "LWS_GROUP_SIZE": "3", "SSH_PORT": "2222", "MPI_INTERFACE": "eth0", "CODE": str(code)}
        started.append(subprocess.Popen(["/bin/bash", tmp_path / "leader.sh", "--slots", "4"], env=environment))
        wait_for((tmp_path / "ready").exists, "the server to start")
        return started[-1]

    yield start
    (tmp_path / "crash").touch()  # ends fakes that are left
    for process in started:
        process.wait(60)


def test_ranks_start_on_every_pod(leader, tmp_path):
    leader()
    hosts = [line.split()[-2] for line in (tmp_path / "calls").read_text().splitlines()]
    assert hosts == ["ranks-1-1.ranks.ringside", "ranks-1-1.ranks.ringside", "ranks-1-2.ranks.ringside"], "the first one was asked twice"
    words = (tmp_path / "mpirun").read_text()
    assert "--host ranks-1:1,ranks-1-1.ranks.ringside:1,ranks-1-2.ranks.ringside:1 -np 3 " in words
    assert words.endswith("ringside-server --slots 4\n")
    assert (tmp_path / "known").read_text() == "[*]:2222 ssh-ed25519 AAAA group\n"


def test_a_stop_reaches_the_server_only(leader, tmp_path):
    process = leader()
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 0 and (tmp_path / "end").read_text() == "stopped\n"


def test_the_exit_code_is_mpiruns(leader, tmp_path):
    process = leader(code=78)
    (tmp_path / "crash").touch()
    assert process.wait(60) == 78


def test_scripts_are_sound():
    for script in SCRIPTS.glob("*.sh"):
        subprocess.run(["bash", "-n", script], check=True)
