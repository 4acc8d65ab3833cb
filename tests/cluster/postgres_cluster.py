"""PostgreSQL for the cluster tests: a primary and its synchronous standby, which tests kill, pause, fill up, cut off and
promote.

The nodes run in temporary folders, each by default a small file system in memory, and never touch the system's own
cluster. PostgreSQL refuses to run as root: then it runs as the user `postgres` of Debian's package.
"""

import contextlib
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path

import psycopg
from network import command
from server_process import PATIENCE_S, wait_for

USER, PORT = "ringside", 5432
DISK_MIB = 160  # capacity of a node's file system; an empty cluster takes about 50
SETTINGS = {
    "unix_socket_directories": "", "shared_buffers": "32MB", "max_connections": "100", "max_wal_size": "32MB", "min_wal_size": "16MB",
    "wal_keep_size": "16MB",  # what a standby lacks after some seconds without a link
    "hot_standby": "on", "wal_sender_timeout": "2s", "wal_receiver_timeout": "2s", "wal_retrieve_retry_interval": "200ms",
    "tcp_keepalives_idle": "2", "tcp_keepalives_interval": "1", "tcp_keepalives_count": "2", "tcp_user_timeout": "4s",
    "synchronous_standby_names": "ANY 1 (a, b)", "autovacuum_naptime": "10s", "jit": "off",
}


def programs():
    """Folder of PostgreSQL's server programs, or None without them."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=lambda path: int(path.parts[-3]))
    if found:
        return found[-1].parent
    path = shutil.which("postgres")
    return Path(path).parent if path else None


def unprivileged():
    """Prefix of commands that may not run as root, and the user and group."""
    if os.geteuid() != 0:
        return [], os.geteuid(), os.getegid()
    user = pwd.getpwnam("postgres")
    return ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups", "--"], user.pw_uid, user.pw_gid


def family(pid):
    """State of the process and of its children, by their ids; PostgreSQL's processes have no grandchildren."""
    found = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, parent = stat.read_text().rsplit(")", 1)[1].split()[:2]
            if pid in (int(parent), int(stat.parent.name)):
                found[int(stat.parent.name)] = state
    return found


def ended(pid):
    """Whether the process has ended; init may reap it later."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except OSError:
        return True


def send(pids, number):
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


class PostgresNode:
    """One server of the cluster: its folder, its process, and its place."""

    def __init__(self, name, folder, address="127.0.0.1", port=PORT, launcher=(), in_memory=True):
        """`launcher`: prefix of its commands, such as Machine.launcher. `in_memory`: a file system of DISK_MIB."""
        self.name, self.address, self.port = name, address, port
        self.disk = folder / name
        self.data, self.log, self.ballast = self.disk / "data", folder / f"{name}.log", self.disk / "ballast"
        become, user, group = unprivileged()
        self.launcher = [*launcher, *become]
        self.process = None
        self.disk.mkdir()
        if in_memory:
            command("mount", "-t", "tmpfs", "-o", f"size={DISK_MIB}m,mode=0700,uid={user},gid={group}", "tmpfs", self.disk)
        else:
            os.chown(self.disk, user, group)

    def run(self, program, *words):
        return command(*self.launcher, programs() / program, *words)

    def initialize(self):
        """Makes an empty cluster with a superuser `postgres`, trusted from everywhere."""
        self.run("initdb", "--pgdata", self.data, "--username=postgres", "--auth=trust", "--no-sync", "--wal-segsize=1", "--no-locale",
                 "--encoding=UTF8")
        with (self.data / "pg_hba.conf").open("a") as rules:
            rules.write("host all all all trust\nhost replication all all trust\n")

    def copy_from(self, primary):
        """Replaces the data by a copy of the primary's, as its standby. The node must be down."""
        shutil.rmtree(self.data, ignore_errors=True)
        self.run("pg_basebackup", "--pgdata", self.data, "--write-recovery-conf", "--wal-method=stream", "--checkpoint=fast", "--no-sync",
                 "-d", f"host={primary.address} port={primary.port} user=postgres connect_timeout=5")

    def start(self, **settings):
        options = SETTINGS | settings | {"port": self.port, "listen_addresses": self.address, "cluster_name": self.name}
        words = [word for name, value in options.items() for word in ("-c", f"{name}={value}")]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen([*self.launcher, programs() / "postgres", "-D", self.data, *words], stdin=subprocess.DEVNULL,
                                            stdout=log, stderr=log)

    def wait_until_ready(self):
        def ready():
            assert self.running(), f"PostgreSQL {self.name} ended with {self.process.poll()}:\n{self.tail()}"
            with contextlib.suppress(psycopg.Error), self.connect():
                return True

        wait_for(ready, f"PostgreSQL {self.name} to accept connections")

    def connect(self, user="postgres", dbname="postgres", **options):
        """Returns a connection in autocommit mode, which does not wait for a dead node."""
        return psycopg.connect(host=self.address, port=self.port, user=user, dbname=dbname, autocommit=True, connect_timeout=2, **options)

    def query(self, statement):
        with self.connect() as connection:
            return connection.execute(statement).fetchall()

    def running(self):
        return self.process is not None and self.process.poll() is None

    def kill(self):
        """Kills all its processes at once, as a power failure does: no backend completes a statement after the others died."""
        if not self.running():
            return
        pids = self.pause()
        send(pids, signal.SIGKILL)
        self.process.wait(PATIENCE_S)
        wait_for(lambda: all(map(ended, pids)), "PostgreSQL's processes to end")

    def pause(self):
        """Stops all its processes. Returns their ids."""

        def stopped():
            states = family(self.process.pid)
            send(states, signal.SIGSTOP)
            return states if set(states.values()) <= {"T", "Z"} else None

        return list(wait_for(stopped, "PostgreSQL's processes to stop"))

    def resume(self):
        send(family(self.process.pid), signal.SIGCONT)

    def fill_disk(self):
        """Leaves no free block on its file system."""
        with self.ballast.open("wb", buffering=0) as file, contextlib.suppress(OSError):
            while True:
                file.write(bytes(1 << 16))

    def free_disk(self):
        """Ends fill_disk, and restarts the node if the full disk ended it."""
        self.ballast.unlink(missing_ok=True)
        if not self.running():
            self.start()

    def tail(self):
        return self.log.read_text(errors="replace")[-3000:]


class PostgresCluster:
    """Nodes `a` and `b`. A commit returns once both have written it to disk; after a failover writes wait until
    `rebuild()`. `with PostgresCluster() as cluster:` stops them and removes their folder."""

    def __init__(self, machines=None, ports=(PORT, PORT), in_memory=True, parent=None):
        """`machines`: two network.Machine, or None: both nodes listen on 127.0.0.1 at `ports`. `parent`: folder of the data."""
        self.folder = Path(tempfile.mkdtemp(prefix="ringside-postgres-", dir=parent))
        self.folder.chmod(0o755)
        places = [(m.address, PORT, m.launcher) for m in machines] if machines else [("127.0.0.1", port, ()) for port in ports]
        self.a, self.b = (PostgresNode(name, self.folder, *place, in_memory=in_memory) for name, place in zip("ab", places))
        self.machines = dict(zip((self.a, self.b), machines or (None, None)))
        self.primary, self.standby, self.databases = self.a, self.b, 0

    def start(self):
        """Starts both nodes and creates the owner of the databases; returns self."""
        self.primary.initialize()
        self.primary.start()
        self.primary.wait_until_ready()
        with self.primary.connect() as connection:
            connection.execute("set synchronous_commit = local")  # there is no standby yet
            connection.execute(f"create role {USER} login")
        self.rebuild()
        return self

    def new_database(self):
        """Creates a database without tables, owned by USER; returns its URL, which reaches the primary after a failover too."""
        self.databases += 1
        name = f"{USER}{self.databases}"
        with self.primary.connect() as connection:
            connection.execute(f"create database {name} owner {USER}")
        return self.url(name)

    def url(self, database, user=USER):
        hosts = ",".join(f"{node.address}:{node.port}" for node in (self.a, self.b))
        return f"postgresql://{user}@{hosts}/{database}?target_session_attrs=read-write"

    def fail_over(self):
        """Kills the primary and promotes the standby. Commits wait until rebuild()."""
        self.primary.kill()
        self.promote()

    def promote(self):
        """Promotes the standby. REQUIRES: the primary is dead. A paused or cut-off primary may still answer reads."""
        assert not self.primary.running()
        self.primary, self.standby = self.standby, self.primary
        promoted = wait_for(lambda: attempt(lambda: self.primary.query("select pg_promote(true, 60)")), "the promotion")
        assert promoted == [(True,)], promoted

    def rebuild(self):
        """Makes the node that is down a standby of the primary again, and waits until commits are synchronous."""
        if self.standby.running():
            self.standby.kill()
        self.standby.ballast.unlink(missing_ok=True)
        self.standby.copy_from(self.primary)
        self.standby.start()
        self.wait_until_synchronous()

    def wait_until_synchronous(self):
        def synchronous():
            rows = self.primary.query("select application_name, sync_state, state from pg_stat_replication")
            return (self.standby.name, "quorum", "streaming") in rows

        wait_for(lambda: attempt(synchronous), "the standby to be synchronous")

    def end_connections(self):
        """Ends all connections of USER. A commit that waits for the standby has happened, and its client receives no outcome."""
        self.primary.query(f"select pg_terminate_backend(pid) from pg_stat_activity where usename = '{USER}'")

    def heal(self):
        """Brings both nodes back from any fault: continues, frees, starts and rebuilds them."""
        for node in (self.primary, self.standby):
            if node.running():
                node.resume()
            node.ballast.unlink(missing_ok=True)
        if not self.primary.running():
            self.primary.start()
        self.primary.wait_until_ready()
        if not self.standby.running():
            self.standby.start()
        self.wait_until_synchronous()

    def stop(self):
        for node in (self.a, self.b):
            node.kill()
            if os.path.ismount(node.disk):
                command("umount", "--lazy", node.disk)
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        self.stop()


def attempt(action):
    """The action's value, or None while the database refuses it."""
    with contextlib.suppress(psycopg.Error):
        return action()
    return None
