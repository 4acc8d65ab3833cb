"""Three servers with one shared journal, each on its own machine, and HAProxy in front."""

import csv
import io
import os
import shutil
import signal
import socket
import subprocess
import time

from network import SWITCH_ADDRESS
from server_process import ROOT, ServerProcess, wait_for

PORT, PROXY_PORT = 8080, 8000
FENCED = 75  # exit status of a server whose lease was taken
# The server, with a wall clock that a test can set.
SERVER = os.environ.get("RINGSIDE_FAILING_SERVER") or str(ROOT / "build/cpu/bin/failing_server")
HAPROXY = shutil.which("haproxy", path="/usr/sbin:/usr/bin:/usr/local/sbin:/usr/local/bin")
# Every server continues every conversation, so requests go to any that is up. A paused server keeps its connections: an
# answer that it sends after it lost its lease reaches its client.
CONFIGURATION = """
global
  stats socket {runtime} mode 600 level admin
defaults
  mode http
  timeout connect 1s
  timeout check 1s
  timeout client 1h
  timeout server 1h
  timeout tunnel 24h
frontend chat
  bind 127.0.0.1:{port}
  bind {address}:{port}
  default_backend ringside
backend ringside
  balance roundrobin
  option redispatch
  retries 3
  retry-on conn-failure
  option http-server-close
  option httpchk
  http-check send meth GET uri /readyz
  default-server check inter 500ms fall 2 rise 1
{servers}
"""


class ClusterServer:
    """One server of a cluster: it keeps its name, address and flags over its processes."""

    def __init__(self, name, machine, model, flags, folder, binary=SERVER, environment=None):
        self.name, self.machine, self.model, self.flags = name, machine, model, flags
        self.folder, self.binary = folder, binary
        self.clock = folder / "clock"
        self.environment = {"WALL_CLOCK_OFFSET": str(self.clock)} | (environment or {})
        self.process, self.began, self.killed = None, 0.0, False
        folder.mkdir(exist_ok=True)

    @property
    def address(self):
        return self.machine.address

    def start(self):
        self.began = time.monotonic()
        self.process = ServerProcess(self.model, "--allow-public", "--threads", 1, "--port", PORT, *self.flags, folder=self.folder,
                                     binary=self.binary, host=self.address, launcher=self.machine.launcher, environment=self.environment)
        self.killed = False  # not before: a supervisor in another thread would see the killed process end by itself
        return self

    def set_clock(self, offset_s):
        """Sets its wall clock ahead by `offset_s`; takes effect in the running process."""
        self.clock.write_text(str(offset_s))

    def running(self):
        return self.process is not None and self.process.running()

    def ready(self):
        """Whether it accepts turns now, without waiting for a process that is paused or cut off."""
        try:
            with socket.create_connection((self.address, PORT), timeout=0.5) as line:
                line.sendall(b"GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
                return line.recv(64).split()[1:2] == [b"200"]
        except OSError:
            return False

    def kill(self):
        self.killed = True
        if self.running():
            self.process.kill()

    def pause(self):
        self.process.process.send_signal(signal.SIGSTOP)

    def resume(self):
        if self.running():
            self.process.process.send_signal(signal.SIGCONT)


class Cluster:
    """`servers` by their names. `with Cluster(...) as cluster:` ends all processes."""

    def __init__(self, folder, machines, model, flags_of, binary=SERVER, environment=None):
        """`flags_of(name, folder)`: flags of a server. `environment`: of all servers, such as RINGSIDE_TEST_DEFECT."""
        self.folder = folder
        self.servers = {}
        for machine in machines:
            place = folder / machine.name
            self.servers[machine.name] = ClusterServer(machine.name, machine, model, flags_of(machine.name, place), place, binary, environment)
        self.proxy = None

    def __iter__(self):
        return iter(self.servers.values())

    def start(self):
        for server in self:
            server.start()
        self.start_proxy()
        self.wait_until_ready()
        return self

    def start_proxy(self):
        self.runtime = self.folder / "runtime"
        servers = "\n".join(f"  server {server.name} {server.address}:{PORT}" for server in self)
        text = CONFIGURATION.format(runtime=self.runtime, port=PROXY_PORT, address=SWITCH_ADDRESS, servers=servers)
        (self.folder / "haproxy.cfg").write_text(text)
        with (self.folder / "haproxy.log").open("ab") as log:
            self.proxy = subprocess.Popen([HAPROXY, "-db", "-f", self.folder / "haproxy.cfg"], stdin=subprocess.DEVNULL, stderr=log)
        wait_for(self.runtime.exists, "the proxy to start")

    def wait_until_ready(self):
        def ready():
            for server in self:
                assert server.running(), f"{server.name} ended with {server.process.process.poll()}:\n{server.process.tail()}"
            return self.ready()

        wait_for(ready, "all servers to be ready")

    def ready(self):
        """Whether every server accepts turns and the proxy knows it."""
        return all(server.ready() for server in self) and self.servers_up() == set(self.servers)

    def servers_up(self):
        """Names of the servers that the proxy considers up."""
        with socket.socket(socket.AF_UNIX) as line:
            line.connect(str(self.runtime))
            line.sendall(b"show stat\n")
            text = b"".join(iter(lambda: line.recv(1 << 16), b"")).decode().removeprefix("# ")
        return {row["svname"] for row in csv.DictReader(io.StringIO(text))
                if row["pxname"] == "ringside" and row["svname"] in self.servers and row["status"].startswith("UP")}

    def logs(self):
        """The end of each server's log."""
        return "\n".join(f"--- {server.name}\n{server.process.tail()}" for server in self if server.process)

    def __enter__(self):
        try:
            return self.start()
        except BaseException:
            self.stop()
            raise

    def __exit__(self, *_):
        self.stop()

    def stop(self):
        for server in self:
            server.resume()
            server.kill()
        if self.proxy:
            self.proxy.kill()
            self.proxy.wait()
