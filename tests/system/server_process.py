"""The real ringside-server as a process that tests start, signal, kill and restart on the same folder."""

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
PATIENCE_S = int(os.environ.get("TEST_PATIENCE_S", 120))  # a hang is a failure, slowness is not
# Keep loopback traffic away from a configured proxy.
os.environ["NO_PROXY"] = os.environ["no_proxy"] = "127.0.0.1,localhost"


def run(coroutine):
    """Runs a coroutine with a timeout; returns its result."""
    return asyncio.run(asyncio.wait_for(coroutine, PATIENCE_S))


def server_path():
    return os.environ.get("RINGSIDE_SERVER") or str(ROOT / "build/cpu/bin/ringside-server")


class ServerProcess:
    """Started when constructed, but perhaps not ready yet. `log` collects its log over all restarts."""

    def __init__(self, model, *flags, folder=None, binary=None, environment=None, scheme="http", launcher=(),
                 host="127.0.0.1"):
        """`model`: None with --models-dir. `binary`: runs instead of the server. `environment`: extra variables. `scheme`: expected in the printed
        address. `launcher`: command prefix."""
        self.log = Path(folder or tempfile.mkdtemp(prefix="ringside-system-")) / "server.log"
        given = ["--model", model] if model else []
        command = [*launcher, binary or server_path(), *given, "--host", host, "--port", "0", "--log-level", "warning",
                   "--log-format", "text", "--max-output-tokens-limit", str(1 << 30),  # tests request endless answers
                   *map(str, flags)]
        # Settings inherited from the environment would change the behaviour under test.
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("RINGSIDE_")}
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log,
                                            env=inherited | (environment or {}))
        self.port, self.scheme, self.host = None, scheme, host

    def wait_until_ready(self):
        """Waits for the line that the server prints once it accepts turns; returns self."""
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
        """Waits for the process to exit; returns its status."""
        try:
            code = self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"the server did not end within {timeout_s} s:\n{self.tail()}") from None
        self.process.stdout.close()
        return code

    def stop(self):
        """Shuts down in an orderly way and checks the exit status."""
        self.terminate()
        code = self.wait()
        assert code == 0, f"the server ended with {code}:\n{self.tail()}"

    def running(self):
        return self.process.poll() is None

    def get(self, path):
        """Returns status and body of a blocking GET."""
        try:
            with urllib.request.urlopen(f"http://{self.host}:{self.port}{path}", timeout=PATIENCE_S) as response:
                return response.status, response.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def metrics(self):
        """Returns metric name (with its labels, as printed) to value."""
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
    """Waits until `condition()` is true; returns its value."""
    deadline = time.monotonic() + timeout_s
    while not (value := condition()):
        assert time.monotonic() < deadline, f"not within {timeout_s} s: {what}"
        time.sleep(0.02)
    return value
