"""`ringside drain` hands a running server's conversations over, and `ringside-server migrate` moves them between a folder and
the database with their ids.

    scripts/python -m pytest tests/cluster/drain_test.py        (as root)

The lease is far longer than the test: a conversation that was not released would not continue.
"""

import json
import os
import subprocess

import pytest
from cluster import HAPROXY, PORT, SERVER, Cluster
from server_process import ROOT, ServerProcess, run, wait_for
from wire import Http

pytestmark = pytest.mark.skipif(HAPROXY is None, reason="haproxy is not installed")
LEASE_S, CONVERSATIONS = 3600, 20
CLIENT = os.environ.get("RINGSIDE_CLIENT") or str(ROOT / "build/cpu/bin/ringside")


@pytest.fixture
def cluster(machines, database, model, tmp_path):
    def flags(name, _):
        return ["--store-url", database, "--server-name", name, "--lease-s", LEASE_S, "--slots", 8]

    with Cluster(tmp_path, machines[2:], model, flags) as cluster:
        yield cluster


def command(*words):
    """Runs the client; returns its exit status and output."""
    ran = subprocess.run([CLIENT, *words], capture_output=True, text=True, timeout=120)
    return ran.returncode, ran.stdout + ran.stderr


async def talk(http, conversation, text, expect=200):
    status, answer = await http.call("POST", "/v1/responses", {"conversation": conversation, "input": text, "max_output_tokens": 4, "temperature": 0})
    assert status == expect, answer
    return answer


async def create(http, count):
    made = []
    for number in range(count):
        status, one = await http.call("POST", "/v1/conversations", {"metadata": {"number": str(number)}})
        assert status == 200, one
        await talk(http, one["id"], f"Number {number}.")
        made.append(one["id"])
    return made


def test_drained_server_keeps_running_without_conversations(cluster):
    drained, other, _ = cluster
    url = f"http://{drained.address}:{PORT}"

    async def drain():
        here, there = Http(PORT, drained.address), Http(PORT, other.address)
        made = await create(here, CONVERSATIONS)
        assert command("drain", "--url", url, "--wait") == (0, "drained, 0 conversations held\n")
        wait_for(lambda: not drained.ready(), "the drained server to be not ready")
        refused = await talk(here, made[0], "Here?", expect=503)
        assert refused["error"]["code"] == "unavailable", refused
        for id in made:
            await talk(there, id, "There.")
            assert await here.items(id) == await there.items(id)
        assert command("drain", "--url", url, "--resume")[0] == 0
        wait_for(drained.ready, "the server to be ready again")
        await talk(here, made[0], "Here again.")
        status, state = await here.call("GET", "/v1/server")
        assert status == 200 and state == {"object": "ringside.server", "state": "serving", "conversations_held": 1}
        here.close()
        there.close()

    run(drain())


def test_drain_of_a_server_with_a_store_of_its_own_fails(model, tmp_path):
    with ServerProcess(model, "--store-path", tmp_path / "store", binary=SERVER).wait_until_ready() as server:
        status, output = command("drain", "--url", f"http://127.0.0.1:{server.port}")
        assert status == 1 and output.startswith("ringside: "), output


def migrate(source, target):
    ran = subprocess.run([SERVER, "migrate", str(source), str(target)], capture_output=True, text=True, timeout=120)
    return ran.returncode, ran.stdout + ran.stderr


def test_conversations_migrate_in_and_out(machines, postgres, database, model, tmp_path):
    folder, other = tmp_path / "folder", tmp_path / "other"
    flags = ["--threads", 1]

    async def first(port):
        http = Http(port)
        made = await create(http, 3)
        items = {id: await http.items(id) for id in made}
        http.close()
        return items

    with ServerProcess(model, "--store-path", folder, *flags, binary=SERVER).wait_until_ready() as server:
        expected = run(first(server.port))
    assert migrate(folder, database) == (0, "3 conversations and chains copied, 0 were there already, 0 not copied\n")
    assert migrate(folder, database) == (0, "0 conversations and chains copied, 3 were there already, 0 not copied\n")

    async def second(port):
        http = Http(port)
        for id in expected:
            assert await http.items(id) == expected[id]
            await talk(http, id, "On the database.")
            expected[id] = await http.items(id)
        status, page = await http.call("GET", "/v1/conversations?limit=100")
        assert status == 200 and {one["id"] for one in page["data"]} == set(expected)
        assert {json.dumps(one["metadata"]) for one in page["data"]} == {json.dumps({"number": str(n)}) for n in range(3)}
        http.close()

    with ServerProcess(model, "--store-url", database, "--server-name", "one", *flags, binary=SERVER).wait_until_ready() as server:
        run(second(server.port))
        server.stop()  # in order: its conversations are free
    assert migrate(database, other) == (0, "3 conversations and chains copied, 0 were there already, 0 not copied\n")

    async def third(port):
        http = Http(port)
        for id in expected:
            assert await http.items(id) == expected[id]
            await talk(http, id, "And back.")
        http.close()

    with ServerProcess(model, "--store-path", other, *flags, binary=SERVER).wait_until_ready() as server:
        run(third(server.port))


def test_migration_names_what_is_wrong(tmp_path, database):
    status, output = migrate(tmp_path / "empty", "postgresql://ringside@10.78.0.99:5432/none?connect_timeout=1")
    assert status == 1 and "database" in output, output
    assert subprocess.run([SERVER, "migrate", "only-one"], capture_output=True).returncode == 2
