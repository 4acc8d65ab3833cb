"""A server on two machines, simulated by two network namespaces that share a link and the disk. It answers as a single
process does, and cutting the link in mid-answer ends both.

    scripts/python -m pytest tests/system/ranks/nodes_test.py        (as root)
"""

import ctypes
import os
import shutil
import subprocess

import pytest
from rank_answers import answers_of, continues_answer, lose_rank
from rank_processes import FAILED, RankProcesses, needs_mpirun

pytestmark = needs_mpirun
CLONE_NEWNET = 0x40000000
NETWORK = "10.77.0"
# Replaces ssh for mpirun: HOST COMMAND...
AGENT = """#!/bin/sh
shift
exec ip netns exec {far} unshare --uts sh -c "hostname {far}; $*"
"""


def ip(*words):
    return subprocess.run(["ip", *words], capture_output=True, text=True)


def enter(namespace):
    """Moves this thread and its children into a network namespace."""
    with open(namespace) as file:
        if ctypes.CDLL(None, use_errno=True).setns(file.fileno(), CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), "setns")


@pytest.fixture
def nodes(tmp_path):
    """Creates two nodes; the test runs on the near one."""
    near, far = f"near-{os.getpid()}", f"far-{os.getpid()}"
    if shutil.which("ip") is None or os.geteuid() != 0 or ip("netns", "add", near).returncode != 0:
        pytest.skip("no network namespaces here")
    home = f"/proc/{os.getpid()}/ns/net"
    with open(home) as there:
        try:
            for words in (["netns", "add", far], ["link", "add", "link0", "netns", near, "type", "veth", "peer", "name", "link0", "netns", far],
                          ["-n", near, "addr", "add", f"{NETWORK}.1/24", "dev", "link0"], ["-n", far, "addr", "add", f"{NETWORK}.2/24", "dev", "link0"],
                          *[["-n", node, "link", "set", device, "up"] for node in (near, far) for device in ("lo", "link0")]):
                made = ip(*words)
                if made.returncode != 0:
                    pytest.skip(f"no links between network namespaces here: {made.stderr}")
            enter(f"/run/netns/{near}")
            agent = tmp_path / "agent"
            agent.write_text(AGENT.format(far=far))
            agent.chmod(0o755)
            yield near, agent
        finally:
            ctypes.CDLL(None).setns(there.fileno(), CLONE_NEWNET)
            for node in (near, far):
                ip("netns", "del", node)


@pytest.fixture
def start_nodes(nodes, model, tmp_path):
    near, agent = nodes
    servers = []

    def start(*flags):
        options = ["--mca", "plm_rsh_agent", str(agent), "--mca", "btl_tcp_if_include", f"{NETWORK}.0/24", "--mca", "oob_tcp_if_include",
                   f"{NETWORK}.0/24", "--host", f"{NETWORK}.1:1,{NETWORK}.2:1"]
        under = ["unshare", "--uts", "sh", "-c", f'hostname {near}; exec "$@"', "sh"]
        servers.append(RankProcesses(model, 2, "--tensor-parallel-size", 2, "--threads", 1, *flags, folder=tmp_path, options=options, under=under))
        return servers[-1].wait_until_ready()

    yield start
    for server in servers:
        if server.running():
            server.kill()


def namespace_of(pid):
    return os.readlink(f"/proc/{pid}/ns/net")


def test_two_nodes_answer_as_one(nodes, start, start_nodes, store):
    question = [("Tell me something long.", 60)]
    want = answers_of(start("--memory-len", 128), question)
    server = start_nodes("--memory-len", 128, "--store-path", store)
    pids = server.pids()
    assert namespace_of(pids[0]) != namespace_of(pids[1])
    assert answers_of(server, question) == want


def cut_link(node):
    assert ip("-n", node, "link", "set", "link0", "down").returncode == 0


def test_network_partition_ends_both_nodes_without_loss(nodes, start, start_nodes, store):
    near, _ = nodes
    server = start_nodes("--store-path", store, "--rank-timeout", 3600)  # the heartbeat notices it
    id, items = lose_rank(server, lambda: cut_link(near))
    assert server.ended() == [FAILED, FAILED], server.tail()
    assert ip("-n", near, "link", "set", "link0", "up").returncode == 0  # mpirun waits for the other machine
    server.wait()
    continues_answer(start("--store-path", store), id, items)
