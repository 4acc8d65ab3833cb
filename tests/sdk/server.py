"""Starts a ringside-server with the real model, or another one, on a free loopback port."""

import os
import re
import signal
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PATIENCE_S = int(os.environ.get("TEST_PATIENCE_S", 120))  # a hang is a failure, slowness is not
# Keep loopback traffic away from a configured proxy; the SDK honours these variables.
os.environ["NO_PROXY"] = os.environ["no_proxy"] = "127.0.0.1,localhost"


def model_path():
    path = os.environ.get("RINGSIDE_TEST_MODEL")
    return path or subprocess.check_output([ROOT / "scripts/model"], text=True).strip()


def server_path():
    return os.environ.get("RINGSIDE_SERVER") or str(ROOT / "build/cpu/bin/ringside-server")


class Server:
    """Ready when constructed. `stop` shuts the server down as an operator would and fails unless it exits cleanly."""

    def __init__(self, *flags, model=None):
        self.flags = flags
        self.model = model or model_path()
        self._start(0)

    def _start(self, port):
        self.log = Path(tempfile.mkstemp(prefix="ringside-test-", suffix=".log")[1])
        command = [server_path(), "--model", self.model, "--host", "127.0.0.1", "--port", str(port),
                   "--log-level", "warning", *self.flags]
        # Settings inherited from the environment would change the behaviour under test.
        environment = {name: value for name, value in os.environ.items() if not name.startswith("RINGSIDE_")}
        with self.log.open("wb") as out:
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, env=environment
            )
        self.port = self._wait_for_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._wait_until_ready()

    def _wait_for_port(self):
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            found = re.search(r"http://127\.0\.0\.1:(\d+)", self.log.read_text(errors="replace"))
            if found:
                return int(found[1])
            assert self.process.poll() is None, f"the server ended:\n{self.log.read_text(errors='replace')}"
            time.sleep(0.02)
        raise AssertionError(f"the server printed no port:\n{self.log.read_text(errors='replace')}")

    def _wait_until_ready(self):
        deadline = time.monotonic() + PATIENCE_S
        while self.get("/readyz")[0] != 200:
            assert time.monotonic() < deadline, "not ready after two minutes"
            time.sleep(0.05)

    def kill(self):
        """Kills the server without warning, like a power cut."""
        self.process.kill()
        self.process.wait()
        self.log.unlink()

    def restart(self):
        """Starts the server again after a kill or a stop, with the same flags and port."""
        self._start(self.port)

    def get(self, path):
        """Returns status and body of a GET."""
        try:
            with urllib.request.urlopen(self.url + path, timeout=60) as response:
                return response.status, response.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def alive(self):
        return self.process.poll() is None and self.get("/healthz")[0] == 200

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        try:
            code = self.process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise AssertionError("the server did not end within a minute of SIGTERM")
        text = self.log.read_text(errors="replace")
        assert code == 0, f"the server ended with {code}:\n{text[-4000:]}"
        assert "Sanitizer" not in text and "runtime error" not in text, text[-8000:]
        self.log.unlink()
