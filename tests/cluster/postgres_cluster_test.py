"""The database of the cluster tests has the faults that they rely on: an acknowledged commit survives a failover, a commit
without its standby waits, and cuts, pauses and a full disk take effect and can be undone.

    scripts/python -m pytest tests/cluster/postgres_cluster_test.py        (as root)
"""

import contextlib
import subprocess
import sys
import threading

import psycopg
import pytest
from network import SWITCH_ADDRESS, cut, restore
from postgres_cluster import attempt, family
from server_process import wait_for

# Connects, and appends once it reads a line.
CLIENT = """
import sys, psycopg
connection = psycopg.connect(sys.argv[1], autocommit=True)
print("connected", flush=True)
input()
connection.execute("insert into log values (7)")
print("acknowledged")
"""


@pytest.fixture
def table(postgres):
    """A table on a healthy cluster."""
    with postgres.primary.connect() as connection:
        connection.execute("drop table if exists log")
        connection.execute("create table log (n int8 primary key, filler text)")
    yield
    postgres.heal()


def append(node, n, filler=""):
    with node.connect() as connection:
        connection.execute("insert into log values (%s, %s)", [n, filler])


def stored(node):
    return [n for (n,) in node.query("select n from log order by n")]


class Background:
    """An append in another thread: `done()` once it was acknowledged."""

    def __init__(self, node, n):
        self.error = None
        self.thread = threading.Thread(target=self.run, args=(node, n), daemon=True)
        self.thread.start()

    def run(self, node, n):
        try:
            append(node, n)
        except psycopg.Error as error:
            self.error = error

    def done(self):
        return not self.thread.is_alive() and self.error is None


def waits_for_standby(node):
    return ("SyncRep",) in node.query("select wait_event from pg_stat_activity where wait_event is not null")


def test_acknowledged_commits_survive_failovers(postgres, table):
    for n in range(4):
        append(postgres.primary, n)
        if n % 2:
            old = postgres.primary
            postgres.fail_over()
            assert postgres.primary is not old and stored(postgres.primary) == list(range(n + 1))
            postgres.rebuild()


def test_commit_waits_while_the_standby_is_cut_off(postgres, table):
    cut(*postgres.machines.values())
    pending = Background(postgres.primary, 1)
    wait_for(lambda: waits_for_standby(postgres.primary), "the commit to wait")
    assert not pending.done()
    restore(*postgres.machines.values())
    wait_for(pending.done, "the commit to end")
    assert stored(postgres.standby) == [1]


def test_one_direction_of_a_link_is_cut(postgres, machines, table):
    """The server's packets arrive, the answers do not: a commit happens, and its client receives no outcome."""
    server, database = machines[2], postgres.machines[postgres.primary]
    url = postgres.url("postgres", "postgres")
    with subprocess.Popen([*server.launcher, sys.executable, "-c", CLIENT, url], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          text=True) as client:
        assert client.stdout.readline() == "connected\n"
        database.drop_to(server)
        client.stdin.write("\n")
        client.stdin.flush()
        wait_for(lambda: stored(postgres.primary) == [7], "the commit to happen")
        assert client.poll() is None
        database.deliver_to(server)
        assert client.stdout.readline() == "acknowledged\n"


def test_paused_primary_continues(postgres, table):
    pids = postgres.primary.pause()
    pending = Background(postgres.primary, 1)
    assert len(pids) > 3 and set(family(pids[0]).values()) <= {"T", "Z"} and not pending.done()
    postgres.primary.resume()
    wait_for(lambda: attempt(lambda: stored(postgres.primary)) is not None, "the primary to answer")


def test_full_disk_refuses_and_recovers(postgres, table):
    postgres.primary.fill_disk()
    with pytest.raises(psycopg.Error):
        for n in range(1 << 16):
            append(postgres.primary, n, "x" * (1 << 16))
    postgres.primary.free_disk()
    postgres.heal()
    before = len(stored(postgres.primary))
    append(postgres.primary, -1)
    assert len(stored(postgres.primary)) == before + 1


def test_kill_leaves_no_process(postgres, table):
    pids = family(postgres.standby.process.pid)
    postgres.standby.kill()
    assert len(pids) > 3 and not postgres.standby.running()
    for pid in pids:
        with contextlib.suppress(FileNotFoundError), open(f"/proc/{pid}/cmdline") as line:
            assert "postgres" not in line.read()
    postgres.rebuild()


def test_unplugged_machine_is_unreachable(postgres, machines, table):
    machine = postgres.machines[postgres.primary]
    machine.unplug()
    with pytest.raises(psycopg.OperationalError):
        postgres.primary.connect()
    machine.plug_in()
    assert wait_for(lambda: attempt(lambda: postgres.primary.query("select inet_client_addr()::text")), "an answer")[0][0].startswith(SWITCH_ADDRESS)
