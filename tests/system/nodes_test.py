"""A server on two machines, which two network namespaces play: they have a link between them and nothing else in common but the
disk. It answers as one process does, and a link that is cut in mid answer ends both.

    scripts/python -m pytest tests/system/nodes_test.py        (as root)
"""

import ctypes
import os
import shutil
import subprocess

import pytest
from conversation import Conversation, answer_text
from processes_test import FAILED, GREEDY, ask, run
from rank_processes import RankProcesses, needs_mpirun
from server_process import wait_for
from wire import TERMINAL

pytestmark = needs_mpirun
CLONE_NEWNET = 0x40000000
NETWORK = "10.77.0"
# What mpirun starts in place of ssh: HOST COMMAND...
AGENT = """#!/bin/sh
shift
exec ip netns exec {far} unshare --uts sh -c "hostname {far}; $*"
"""


def ip(*words):
    return subprocess.run(["ip", *words], capture_output=True, text=True)


def enter(namespace):
    """Takes this thread, and what it starts, into a network namespace."""
    with open(namespace) as file:
        if ctypes.CDLL(None, use_errno=True).setns(file.fileno(), CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), "setns")


@pytest.fixture
def nodes(tmp_path):
    """Makes two of them; the test runs on the near one."""
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


def test_two_machines_answer_as_one(nodes, start, start_nodes, store):
    alone = start("--memory-len", 128)
    _, want = run(ask(alone.port, None, "Tell me something long.", 60))
    alone.stop()
    server = start_nodes("--memory-len", 128, "--store-path", store)
    pids = server.pids()
    assert namespace_of(pids[0]) != namespace_of(pids[1])
    id, got = run(ask(server.port, None, "Tell me something long.", 60))
    assert answer_text(got) == answer_text(want)
    server.stop()


def test_a_link_that_is_cut_ends_both_and_loses_nothing(nodes, start, start_nodes, store):
    near, _ = nodes
    server = start_nodes("--store-path", store, "--rank-timeout", 5)

    async def lose():
        async with Conversation(server.port) as talk:
            await talk.ask("Hello.", max_output_tokens=8, **GREEDY)
            items = await talk.items()
            await talk.begin("Tell me.", deltas=2, max_output_tokens=1 << 18, ignore_eos=True)
            assert ip("-n", near, "link", "set", "link0", "down").returncode == 0
            event = await talk.socket.receive()
            while event["type"] not in TERMINAL:
                event = await talk.socket.receive()
            # Nothing else runs in here meanwhile: the server waits for the answer to its close, so it is still there.
            wait_for(lambda: server.get("/readyz")[0] == 503, "/readyz to tell of the failure")
            return talk.id, items, event

    id, items, event = run(lose())
    assert event["type"] == "response.failed" and "rank 1 did not answer" in str(event["response"]["error"]), event
    assert server.ended() == [FAILED, FAILED], server.tail()
    assert ip("-n", near, "link", "set", "link0", "up").returncode == 0  # mpirun waits for the other machine
    server.wait()
    server = start("--store-path", store)

    async def again():
        async with Conversation(server.port, id) as talk:
            assert (await talk.items())[: len(items)] == items
            await talk.ask("Still there?", max_output_tokens=4)

    run(again())
    server.stop()
