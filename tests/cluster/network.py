"""Machines of a cluster as network namespaces on one switch, whose links tests cut and restore.

`isolate()` moves the test into private network and mount namespaces. The namespaces of machines have no names: they are
open files of the test, so nothing remains when it ends, however it ends. Needs root; iproute2 and util-linux do the work.
"""

import contextlib
import ctypes
import os
import subprocess

CLONE_NEWNS, CLONE_NEWNET = 0x00020000, 0x40000000
SUBNET = "10.78.0"
SWITCH_ADDRESS = f"{SUBNET}.1"
UNUSED_MAC = "02:00:00:00:00:01"
libc = ctypes.CDLL(None, use_errno=True)


class NotAllowed(Exception):
    """This system lets the test create no namespaces."""


def command(*words):
    """Runs a command; raises RuntimeError with its messages if it fails."""
    done = subprocess.run(list(map(str, words)), capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, words))} ended with {done.returncode}: {done.stderr.strip()}")
    return done.stdout


def check(result, what):
    if result != 0:
        raise NotAllowed(f"{what}: {os.strerror(ctypes.get_errno())}")


def isolate():
    """Gives this process, and the processes it will start, private network interfaces and mounts. Raises NotAllowed.
    THREAD: the main thread, before others exist."""
    check(libc.unshare(CLONE_NEWNS | CLONE_NEWNET), "unshare")
    try:
        command("mount", "--make-rprivate", "/")
        command("ip", "link", "set", "lo", "up")
        command("ip", "link", "add", "switch", "type", "bridge")
        command("ip", "addr", "add", f"{SWITCH_ADDRESS}/24", "dev", "switch")
        command("ip", "link", "set", "switch", "up")
    except (OSError, RuntimeError) as error:
        raise NotAllowed(str(error)) from error


def new_namespace():
    """Returns an open file of a new network namespace. THREAD: the caller's namespace is unchanged on return."""
    home = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        check(libc.unshare(CLONE_NEWNET), "unshare")
        return os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    finally:
        check(libc.setns(home, CLONE_NEWNET), "setns")
        os.close(home)


class Machine:
    """A network namespace with the interface `link0` on the switch. `launcher` is the prefix of commands that run there."""

    def __init__(self, name, number):
        """`number`: 2 to 254, the last byte of the address."""
        self.name, self.address = name, f"{SUBNET}.{number}"
        self.port_of_switch = f"to-{name}"
        self.file = new_namespace()
        self.path = f"/proc/{os.getpid()}/fd/{self.file}"
        self.launcher = ["nsenter", f"--net={self.path}", "--"]
        command("ip", "link", "add", self.port_of_switch, "type", "veth", "peer", "name", "link0", "netns", self.path)
        command("ip", "link", "set", self.port_of_switch, "master", "switch", "up")
        self.run("ip", "link", "set", "lo", "up")
        self.run("ip", "addr", "add", f"{self.address}/24", "dev", "link0")
        self.run("ip", "link", "set", "link0", "up")

    def run(self, *words):
        return command(*self.launcher, *words)

    def unplug(self):
        """Pulls the cable: nothing reaches or leaves the machine."""
        command("ip", "link", "set", self.port_of_switch, "down")

    def plug_in(self):
        command("ip", "link", "set", self.port_of_switch, "up")

    def drop_to(self, other):
        """From now on packets from here to `other` are lost silently; those of the other direction arrive."""
        self.run("ip", "neigh", "replace", other.address, "lladdr", UNUSED_MAC, "dev", "link0", "nud", "permanent")

    def deliver_to(self, other):
        """Ends drop_to; no effect without it."""
        with contextlib.suppress(RuntimeError):
            self.run("ip", "neigh", "del", other.address, "dev", "link0")

    def close(self):
        with contextlib.suppress(RuntimeError):
            command("ip", "link", "del", self.port_of_switch)
        os.close(self.file)


def cut(one, other):
    """Cuts the link between two machines in both directions."""
    one.drop_to(other)
    other.drop_to(one)


def restore(one, other):
    one.deliver_to(other)
    other.deliver_to(one)
