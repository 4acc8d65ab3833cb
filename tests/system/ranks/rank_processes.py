"""A server of several processes, started by mpirun."""

import os
import shutil
import signal
from pathlib import Path

import pytest
from server_process import ServerProcess, server_path, wait_for

MPIRUN = shutil.which("mpirun")
FAILED = 76  # exit status of every process after one is lost
# The other ranks must outlive a dead one and exit by themselves: rank 0 still has to notify its clients.
OPTIONS = ["--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "--enable-recovery"]
# Records each process's exit status, which mpirun does not report.
NOTE_END = 'trap "" TERM; "$@"; echo $? > "$END.$OMPI_COMM_WORLD_RANK"'

needs_mpirun = pytest.mark.skipif(MPIRUN is None or os.environ.get("RINGSIDE_BUILT_WITH_MPI") == "0",
                                  reason="no mpirun here, or a server without MPI")


class RankProcesses(ServerProcess):
    """`count` processes with --tensor-parallel-size ranks each."""

    def __init__(self, model, count, *flags, folder, options=(), under=(), environment=None, **named):
        """`options`: more mpirun options. `under`: a launcher for mpirun itself."""
        self.count, self.end = count, Path(folder) / "end"
        self.program = Path(named.get("binary") or server_path()).name[:15]  # truncated like the kernel's process name
        for old in Path(folder).glob("end.*"):
            old.unlink()
        launcher = [*under, MPIRUN, *OPTIONS, *options, "-np", str(count), "-x", "END", "/bin/sh", "-c", NOTE_END, "sh"]
        super().__init__(model, *flags, folder=folder, launcher=launcher, environment={"END": str(self.end)} | (environment or {}), **named)

    def pids(self):
        """Running processes by rank, on all simulated machines."""
        found = {}
        for entry in filter(str.isdigit, os.listdir("/proc")):
            try:
                name, _, rest = Path(f"/proc/{entry}/stat").read_text().rpartition(")")
                if not name.endswith("(" + self.program) or rest.split()[0] in "ZX":
                    continue
                environment = Path(f"/proc/{entry}/environ").read_bytes().split(b"\0")
            except OSError:
                continue
            if f"END={self.end}".encode() in environment:
                found |= {int(v.partition(b"=")[2]): int(entry) for v in environment if v.startswith(b"OMPI_COMM_WORLD_RANK=")}
        return found

    def send(self, rank, number):
        os.kill(self.pids()[rank], number)

    def terminate(self):
        self.send(0, signal.SIGTERM)

    def kill(self):
        """Kills all processes."""
        for pid in self.pids().values():
            os.kill(pid, signal.SIGKILL)
        super().kill()

    def ended(self):
        """Waits for all processes to exit; returns their exit statuses."""
        files = [Path(f"{self.end}.{rank}") for rank in range(self.count)]
        wait_for(lambda: all(file.exists() and file.read_text() for file in files), f"all processes to end:\n{self.tail()}")
        wait_for(lambda: not self.pids(), "all processes to be gone")
        return [int(file.read_text()) for file in files]

    def stop(self):
        pids = self.pids()
        assert len(pids) == self.count, pids
        super().stop()
        assert self.ended() == [0] * self.count, self.tail()
