"""Holds many idle WebSockets for scripts/bench_sessions: bench_idle_client.py PORT COUNT, with a JSON list of sessions
on standard input, one for each connection to attach to. Prints "ready SECONDS" when all are open; exits with an error
if one is lost, and normally when standard input ends. Uses bare sockets, to keep the client's cost out of the
measurement."""

import json
import os
import resource
import selectors
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests/system"))
from bare_socket import BareSocket  # noqa: E402

BURST = 200  # concurrent handshakes


class Connection(BareSocket):
    def __init__(self, port, session):
        super().__init__(port)
        self.session, self.asked, self.ready = session, False, False

    def take(self):
        """Processes received data; returns true once the connection is idle."""
        if not self.read():
            sys.exit(f"a connection was closed: {self.head or self.pending[:200]}")
        if self.head is not None and not self.asked:
            if not self.head.startswith(b"HTTP/1.1 101"):
                sys.exit(f"refused: {self.head[:200]}")
            self.asked, self.ready = True, self.session is None
            if self.session is not None:
                self.say({"type": "ringside:session.resume", "session": self.session})
        for event in self.events():
            if event["type"] == "ringside:session.resumed":
                if not event["session_present"]:
                    sys.exit(f"not resumed: {event}")
                self.ready = True
        return self.ready


def main():
    port, count = int(sys.argv[1]), int(sys.argv[2])
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    sessions = json.loads(sys.stdin.readline())
    selector = selectors.DefaultSelector()
    selector.register(sys.stdin, selectors.EVENT_READ, None)
    began, opened, ready = time.monotonic(), 0, 0
    while True:
        while opened < count and opened - ready < BURST:
            connection = Connection(port, sessions[opened] if sessions else None)
            selector.register(connection, selectors.EVENT_READ, connection)
            opened += 1
        for key, _ in selector.select():
            if key.data is None:
                os._exit(0)
            was_ready = key.data.ready
            if key.data.take() and not was_ready:
                ready += 1
                if ready == count:
                    print(f"ready {time.monotonic() - began:.3f}", flush=True)


main()
