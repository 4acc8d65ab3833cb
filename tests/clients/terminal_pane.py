"""A terminal (tmux) that runs `ringside`, as a person sees it, with its server and a proxy in between."""
import json
import os
import re
import select
import signal
import socket
import subprocess
import threading
import time
import urllib.request

PATIENCE_S = int(os.environ.get("TEST_PATIENCE_S", 120))
CLIENT = os.environ.get("RINGSIDE_CLIENT", "build/cpu/bin/ringside")


class Failed(Exception):
    pass


def wait_for(what, condition, patience_s=PATIENCE_S):
    end = time.monotonic() + patience_s
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(0.05)
    raise Failed(f"waited in vain for {what}")


class Server:
    """A private server, or the one named by the environment. `model`: runs instead of the environment's."""

    def __init__(self, folder, *flags, model=None):
        self.process = None
        self.folder, self.flags, self.model = folder, flags, model or os.environ.get("RINGSIDE_TEST_MODEL")
        self.url = "" if flags or model else os.environ.get("RINGSIDE_TEST_URL", "")
        if not self.url:
            self.start(0)

    def start(self, port):
        log = open(os.path.join(self.folder, "server.log"), "w+")
        # This test's variables are not server settings.
        environment = {name: value for name, value in os.environ.items() if not name.startswith("RINGSIDE_")}
        self.process = subprocess.Popen(
            [os.environ["RINGSIDE_SERVER"], "--model", self.model, "--port", str(port),
             "--max-output-tokens", "2000", *self.flags],
            stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, env=environment)

        def listening():
            if self.process.poll() is not None:
                raise Failed("the server ended: " + open(log.name).read()[-1000:])
            found = re.search(r"http://127\.0\.0\.1:(\d+)", open(log.name).read())
            return found and f"ws://127.0.0.1:{found[1]}"

        self.url = wait_for("the server", listening)

    def kill(self):
        self.process.kill()
        self.process.wait()

    def port(self):
        return int(self.url.rsplit(":", 1)[1].split("/")[0])

    def get(self, path):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port()}/v1{path}", timeout=30) as answer:
            return json.load(answer)

    def post(self, path, body):
        request = urllib.request.Request(f"http://127.0.0.1:{self.port()}/v1{path}", json.dumps(body).encode(),
                                         {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.load(answer)

    def ids(self):
        return [conversation["id"] for conversation in self.get("/conversations?limit=100")["data"]]

    def texts(self, conversation):
        items = self.get(f"/conversations/{conversation}/items?order=asc&limit=100")["data"]
        return [(i["role"], "".join(part["text"] for part in i["content"])) for i in items]

    def stop(self):
        if self.process:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(60)
            except subprocess.TimeoutExpired:
                self.process.kill()


class Proxy:
    """A proxy to the server that can cut connections."""

    def __init__(self, port):
        self.target = port
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.lock = threading.Lock()
        self.pairs = []
        self.accepting = True
        self.left = None  # bytes to forward before the connection is cut
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            client, _ = self.listener.accept()
            if not self.accepting:
                client.close()
                continue
            server = socket.create_connection(("127.0.0.1", self.target))
            with self.lock:
                self.pairs.append((client, server))
            threading.Thread(target=self._pump, args=(client, server), daemon=True).start()

    def _pump(self, client, server):
        try:
            while True:
                for source in select.select([client, server], [], [])[0]:
                    data = source.recv(65536)
                    if not data:
                        raise OSError
                    if source is server and self.left is not None:
                        data = data[: self.left]
                        self.left -= len(data)
                    (server if source is client else client).sendall(data)
                    if self.left == 0:
                        self.left = None
                        self.cut()
        except (OSError, ValueError):
            pass
        for end in (client, server):
            end.close()

    def cut(self):
        self.accepting = False
        with self.lock:
            for pair in self.pairs:
                for end in pair:
                    try:
                        end.shutdown(socket.SHUT_RDWR)
                    except OSError:
                        pass
            self.pairs.clear()

    def mend(self):
        self.accepting = True


class Pane:
    """One terminal with a chat in it."""

    count = 0

    def __init__(self, folder, arguments, columns=100, rows=40, verb="chat", **environment):
        Pane.count += 1
        self.tmux = ["tmux", "-f", "/dev/null", "-L", f"ringside-test-{os.getpid()}-{Pane.count}"]
        settings = {"XDG_STATE_HOME": folder, "TERM": "screen-256color", "LC_ALL": "C.UTF-8", **environment}
        command = ["env", "-u", "NO_COLOR"]
        for name in os.environ:  # this test's variables are not settings of a server that the client starts
            command += ["-u", name] if name.startswith("RINGSIDE_") else []
        command += [f"{name}={value}" for name, value in settings.items()] + [CLIENT, verb] + arguments
        line = " ".join("'" + word.replace("'", "'\\''") + "'" for word in command)
        self._tmux("new-session", "-d", "-x", str(columns), "-y", str(rows), line + "; echo EXIT=$?; sleep 1000")
        self._tmux("set-option", "-g", "history-limit", "5000")
        wait_for("the prompt", self.at_prompt)

    def _tmux(self, *words, text=None):
        result = subprocess.run(self.tmux + list(words), input=text, capture_output=True, text=True, check=False)
        if result.returncode != 0:
            raise Failed(f"tmux {words[0]}: {result.stderr}")
        return result.stdout

    def screen(self, colours=False):
        return self._tmux("capture-pane", "-p", "-J", "-S", "-3000", *(["-e"] if colours else [])).rstrip()

    def lines(self):
        return [line.rstrip() for line in self.screen().split("\n")]

    def prompts(self):
        return sum(line.startswith(">>>") for line in self.lines())

    def at_prompt(self):
        return self.lines()[-1] == ">>>"

    def keys(self, *keys):
        self._tmux("send-keys", *keys)

    def type(self, text):
        self._tmux("send-keys", "-l", text)

    def paste(self, text):
        self._tmux("load-buffer", "-", text=text)
        self._tmux("paste-buffer", "-p")

    def say(self, text, wait=True):
        """Types a line at the prompt; returns the output after it, up to the next prompt."""
        wait_for("the prompt", self.at_prompt)
        before = self.prompts()
        self.type(text)
        wait_for("the typed line", lambda: self.lines()[-1].endswith(text[-20:]))
        self.keys("Enter")
        if not wait:
            return ""
        wait_for(f"the prompt behind {text!r}", lambda: self.at_prompt() and self.prompts() > before)
        # Including the prompt: an answer may repeat the words.
        return "\n".join(self.lines()[:-1]).rsplit(f">>> {text}", 1)[1].strip()

    def enter(self, line):
        """Types a line, waits until it is displayed, and presses Enter."""
        self.type(line)
        wait_for("the typed line", lambda: self.lines()[-1].endswith(line))
        self.keys("Enter")

    def drawn(self):
        """Waits until all output so far is drawn: types a key, waits for it and deletes it."""
        self.type("~")
        wait_for("a key", lambda: self.lines()[-1].endswith("~"))
        self.keys("BSpace")
        wait_for("a key taken back", lambda: not self.lines()[-1].endswith("~"))

    def wait_text(self, text):
        wait_for(f"{text!r} on the screen", lambda: text in self.screen())

    def resize(self, columns, rows):
        self._tmux("resize-window", "-x", str(columns), "-y", str(rows))

    def leave(self):
        """Presses Ctrl-D; returns the conversation of the resume line."""
        self.keys("C-d")
        self.wait_text("EXIT=")
        check("leaves with 0", "EXIT=0" in self.screen())
        found = re.findall(r"ringside chat --session (conv_\w+)", self.screen())
        return found[-1] if found else ""

    def close(self):
        subprocess.run(self.tmux + ["kill-server"], capture_output=True, check=False)


failures = []


def check(what, holds, seen=""):
    print(("ok      " if holds else "FAILED  ") + what, flush=True)
    if not holds:
        failures.append(what)
        if seen:
            print("    " + str(seen).replace("\n", "\n    "), flush=True)


def flat(text):
    """Removes blanks and newlines, which wrapping changes."""
    return re.sub(r"\s+", "", text)
