"""A server whose model pauses on request, so that an answer keeps running as long as a test needs it."""

import os

from server_process import ROOT, ServerProcess

FAILING_SERVER = os.environ.get("RINGSIDE_FAILING_SERVER") or str(ROOT / "build/cpu/bin/failing_server")


class PausedServer(ServerProcess):
    def __init__(self, model, *flags, folder):
        self._pause = folder / "pause"
        self.go_on()
        super().__init__(model, "--device", "cuda", "--threads", 1, *flags, folder=folder, binary=FAILING_SERVER,
                         environment={"STALL_WHILE_THERE": str(self._pause)})

    def pause(self):
        self._pause.touch()

    def go_on(self):
        self._pause.unlink(missing_ok=True)
