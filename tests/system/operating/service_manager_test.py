"""systemd's notification protocol, with the test as the service manager; and the output of `ringside health`.

    scripts/python -m pytest tests/system/operating/service_manager_test.py
"""

import asyncio
import http.server
import os
import signal
import socket
import subprocess
import threading

import pytest
from conversation import Conversation
from server_process import PATIENCE_S, ROOT, run

FAILING_SERVER = os.environ.get("RINGSIDE_FAILING_SERVER") or str(ROOT / "build/cpu/bin/failing_server")
CLIENT = os.environ.get("RINGSIDE_CLIENT") or str(ROOT / "build/cpu/bin/ringside")
DEVICE_FAILED = 76
INTERVAL_US = 300_000


class Manager:
    """A socket that receives a service's notifications."""

    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(str(path))
        self.socket.settimeout(PATIENCE_S)
        self.environment = {"NOTIFY_SOCKET": str(path)}

    def hear(self):
        """The next message: field to value."""
        return dict(line.split("=", 1) for line in self.socket.recv(65536).decode().splitlines())

    def until(self, field):
        """Every message up to and including the first with this field."""
        heard = [self.hear()]
        while field not in heard[-1]:
            heard.append(self.hear())
        return heard

    def rest(self):
        """Messages that were still queued when the service ended."""
        self.socket.setblocking(False)
        heard = []
        while True:
            try:
                heard.append(self.hear())
            except BlockingIOError:
                return heard


@pytest.fixture
def manager(tmp_path):
    return Manager(tmp_path / "notify")


def test_ready_reload_and_stop_are_notified_in_order(start, manager):
    server = start("--shutdown-timeout", 7, environment=manager.environment, ready=False)
    *before, ready = manager.until("READY")
    steps = [message["STATUS"] for message in before]
    assert steps[-1] == "warming up", "a turn is computed before the server says that it is ready"
    assert any(step.startswith("loading ") for step in steps), steps
    server.wait_until_ready()
    assert server.get("/readyz")[0] == 200
    assert ready["STATUS"] == f"tiny at http://127.0.0.1:{server.port}: 0 turns running, 0 waiting"

    server.process.send_signal(signal.SIGHUP)
    reloading, ready = manager.hear(), manager.hear()
    assert reloading["RELOADING"] == "1" and int(reloading["MONOTONIC_USEC"]) > 0
    assert ready["READY"] == "1"

    server.stop()
    [stopping] = manager.rest()  # no watchdog was requested, so no keep-alive was sent
    assert stopping["STOPPING"] == "1"
    assert int(stopping["EXTEND_TIMEOUT_USEC"]) > 7_000_000, "the manager waits for what --shutdown-timeout allows"


def test_server_is_not_ready_if_its_first_turn_fails(start, manager, tmp_path):
    (tmp_path / "failure").touch()
    environment = manager.environment | {"FAIL_WHEN_THERE": str(tmp_path / "failure")}
    server = start("--device", "cuda", binary=FAILING_SERVER, environment=environment, ready=False)
    assert server.wait() == DEVICE_FAILED
    heard = manager.rest()
    assert heard and not any("READY" in message for message in heard)


def test_no_watchdog_ping_while_the_engine_is_stuck(start, manager, tmp_path):
    stall = tmp_path / "stall"
    environment = manager.environment | {"STALL_WHILE_THERE": str(stall), "WATCHDOG_USEC": str(INTERVAL_US)}
    server = start("--device", "cuda", binary=FAILING_SERVER, environment=environment)
    manager.until("READY")
    for _ in range(3):
        assert manager.hear()["WATCHDOG"] == "1"

    async def get_stuck():
        async with Conversation(server.port) as talk:
            stall.touch()
            await talk.begin("Hello.", deltas=0, max_output_tokens=4)
            loop = asyncio.get_running_loop()
            while (message := await loop.run_in_executor(None, manager.hear)).get("STATUS") != "no answer from the engine":
                assert "WATCHDOG" in message
            # The sockets still answer, but that does not count as a sign of life.
            for _ in range(5):
                assert await loop.run_in_executor(None, manager.hear) == {"STATUS": "no answer from the engine"}
            assert server.get("/healthz")[0] == 200
            stall.unlink()
            await loop.run_in_executor(None, manager.until, "WATCHDOG")

    run(get_stuck())
    assert "the engine does not answer" in server.tail()
    server.stop()


def test_watchdog_variables_of_another_process_are_ignored(start, manager):
    """The watchdog variables may be inherited from a shell; their process id then names another process."""
    environment = manager.environment | {"WATCHDOG_USEC": "1000", "WATCHDOG_PID": "1"}
    server = start(environment=environment)
    server.stop()
    assert not any("WATCHDOG" in message for message in manager.rest())


def health(*flags):
    return subprocess.run([CLIENT, "health", *flags], capture_output=True, text=True)


def test_client_reports_readiness(start):
    server = start("--api-key", "secret")
    url = f"http://127.0.0.1:{server.port}"
    ready = health("--url", url)
    assert (ready.returncode, ready.stdout) == (0, f"127.0.0.1:{server.port} is ready.\n"), "no key is needed"
    server.stop()
    gone = health("--url", url)
    assert gone.returncode == 1 and "Cannot reach the server" in gone.stderr


def test_client_reports_why_a_server_is_not_ready():
    class Stopping(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            assert self.path == "/readyz"
            body = b'{"status":"unavailable","reason":"stopping"}'
            self.send_response(503)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Stopping) as server:
        threading.Thread(target=server.handle_request).start()
        refused = health("--url", f"http://127.0.0.1:{server.server_port}")
    assert (refused.returncode, refused.stderr) == (1, "ringside: The server is not ready: stopping.\n")
