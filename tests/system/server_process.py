"""The real ringside-server as a process that tests start, signal, kill and start again on the same folder."""

import asyncio
import os
import signal
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PATIENCE_S = int(os.environ.get("TEST_PATIENCE_S", 120))  # a hang is a failure; slowness is not
# A proxy of the environment must not see loopback traffic.
os.environ["NO_PROXY"] = os.environ["no_proxy"] = "127.0.0.1,localhost"


def run(coroutine):
    """Its result."""
    return asyncio.run(asyncio.wait_for(coroutine, PATIENCE_S))


def server_path():
    return os.environ.get("RINGSIDE_SERVER") or str(ROOT / "build/cpu/bin/ringside-server")


class ServerProcess:
    """Started, but perhaps not yet ready, when constructed. What it logs goes to `log`, appended to over restarts."""

    def __init__(self, model, *flags, folder=None, binary=None, environment=None, scheme="http", launcher=()):
        """`binary`: another than the server. `environment`: more variables. `scheme`: of the address it is to tell.
        `launcher`: what the command line begins with."""
        self.log = Path(folder or tempfile.mkdtemp(prefix="ringside-system-")) / "server.log"
        command = [*launcher, binary or server_path(), "--model", model, "--host", "127.0.0.1", "--port", "0", "--log-level", "warning",
                   "--log-format", "text", "--max-output-tokens-limit", str(1 << 30),  # tests ask for answers that never end
                   *map(str, flags)]
        # Settings of the environment would change what is tested.
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("RINGSIDE_")}
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log,
                                            env=inherited | (environment or {}))
        self.port, self.scheme = None, scheme

    def wait_until_ready(self):
        """Returns itself once turns are accepted: the server then writes its one line."""
        line = self.process.stdout.readline().decode()
        if f" {self.scheme}://" not in line:
            raise AssertionError(f"the server ended with {self.process.wait(PATIENCE_S)} before it was ready:\n{self.tail()}")
        self.port = int(line.rsplit(":", 1)[1])
        return self

    def kill(self):
        """kill -9, whatever it is doing."""
        self.process.kill()
        self.process.wait(PATIENCE_S)
        self.process.stdout.close()

    def terminate(self):
        self.process.send_signal(signal.SIGTERM)

    def wait(self, timeout_s=PATIENCE_S):
        """The exit status."""
        try:
            code = self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"the server did not end within {timeout_s} s:\n{self.tail()}") from None
        self.process.stdout.close()
        return code

    def stop(self):
        """An orderly end, which must be one."""
        self.terminate()
        code = self.wait()
        assert code == 0, f"the server ended with {code}:\n{self.tail()}"

    def running(self):
        return self.process.poll() is None

    def get(self, path):
        """Status and body of a GET, blocking."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=PATIENCE_S) as response:
                return response.status, response.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def metrics(self):
        """Name (with its labels, as written) to value."""
        rows = (line.rsplit(" ", 1) for line in self.get("/metrics")[1].splitlines() if line and not line.startswith("#"))
        return {name: float(value) for name, value in rows}

    def resident_bytes(self):
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.split("VmRSS:")[1].split()[0]) * 1024

    def cpu_seconds(self):
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def tail(self):
        return self.log.read_text(errors="replace")[-4000:]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.running():
            self.kill()


def wait_for(condition, what, timeout_s=PATIENCE_S):
    """Until `condition()` is true; its value."""
    deadline = time.monotonic() + timeout_s
    while not (value := condition()):
        assert time.monotonic() < deadline, f"not within {timeout_s} s: {what}"
        time.sleep(0.02)
    return value
