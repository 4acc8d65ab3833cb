"""`ringside pull` against servers that cut, lie, stall and refuse: it continues or ends with one sentence, and no part of a
model is ever in the models' folder.

Environment: RINGSIDE_CLIENT, the client's binary.
"""

import os
import pty
import random
import resource
import signal
import ssl
import subprocess
import threading
import time
from pathlib import Path

import pytest
from model_server import COMMIT, ModelServer, sha256

CLIENT = os.path.abspath(os.environ.get("RINGSIDE_CLIENT", "build/cpu/bin/ringside"))
PATIENCE_S = int(os.environ.get("TEST_PATIENCE_S", 120))
REPO = "ada/Tiny-GGUF"
GGUF = b"GGUF" + random.Random(1).randbytes(300_000)
OTHER = b"GGUF" + random.Random(2).randbytes(300_000)
FILE = f"/{REPO}/resolve/{COMMIT}/Tiny-Q4_K_M.gguf"


class Home:
    """An empty home folder, and a server that all sources name."""

    def __init__(self, folder, server):
        self.folder, self.server = folder, server
        self.models = folder / "ringside/models"
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("HF_", "OLLAMA_", "RINGSIDE_"))}
        self.environment = kept | {"XDG_CACHE_HOME": str(folder), "HOME": str(folder), "HF_ENDPOINT": server.url,
                                   "OLLAMA_REGISTRY": server.url}

    def start(self, *words, environment=None, **more):
        return subprocess.Popen([CLIENT, "pull", *map(str, words)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True, env=self.environment | (environment or {}), **more)

    def pull(self, *words, **more):
        """(exit code, output, errors)"""
        process = self.start(*words, **more)
        out, errors = process.communicate(timeout=PATIENCE_S)
        return process.returncode, out.strip(), errors

    def fails(self, words, *sentences, **more):
        """A pull that ends in one sentence, and leaves no model."""
        code, out, errors = self.pull(*words, "--retries", "0", "-q", **more)
        assert (code, out) == (1, ""), (code, out, errors)
        assert len(errors.splitlines()) == 1 and errors.startswith("ringside: ") and errors.rstrip().endswith("."), errors
        for sentence in sentences:
            assert sentence in errors, errors
        assert self.visible() == []

    def visible(self):
        """Files in the models' folder that are not hidden."""
        files = [path.relative_to(self.models) for path in self.models.rglob("*") if path.is_file()]
        return sorted(str(path) for path in files if not any(part.startswith(".") for part in path.parts))

    def parts(self):
        return sorted(self.models.glob(".partial/*/*.part"))


@pytest.fixture
def server():
    server = ModelServer()
    server.add_repository(REPO, {"README.md": b"# Tiny", "Tiny-Q4_K_M.gguf": GGUF, "Tiny-Q8_0.gguf": OTHER})
    yield server
    server.shutdown()


@pytest.fixture
def home(tmp_path, server):
    return Home(tmp_path, server)


def on(path, answer, times=-1):
    """A fault of one path, which occurs this number of times; -1 = always."""
    left = [times]

    def occur(handler):
        if handler.path.split("?")[0] != path or left[0] == 0:
            return False
        left[0] -= 1
        answer(handler)
        return True
    return occur


def cut_at(data, upto):
    return lambda handler: handler.send_file(data, upto)


@pytest.mark.parametrize("reference", [f"hf:{REPO}", f"hf.co/{REPO}:q4_k_m", f"hf:{REPO}:Q4_K_M"])
def test_pull_takes_the_chosen_file(home, reference):
    code, out, errors = home.pull(reference)
    assert code == 0, errors
    assert out == str(home.models / REPO / "Tiny-Q4_K_M.gguf") and Path(out).read_bytes() == GGUF
    assert home.visible() == [f"{REPO}/Tiny-Q4_K_M.gguf"] and list(home.models.glob(".partial/*")) == []


def test_whole_model_is_not_fetched_again(home, server):
    assert home.pull(f"hf:{REPO}")[0] == 0
    assert home.pull(f"hf:{REPO}")[0] == 0
    assert len(server.asked(FILE)) == 1
    (home.models / REPO / "Tiny-Q4_K_M.gguf").write_bytes(GGUF[:-1] + b"?")
    assert home.pull(f"hf:{REPO}")[0] == 0
    assert (home.models / REPO / "Tiny-Q4_K_M.gguf").read_bytes() == GGUF, "a damaged one is"


def test_unknown_quantisation_lists_the_choices(home):
    home.fails([f"hf:{REPO}:Q2_K"], "no file in Q2_K", "Q4_K_M, Q8_0")


def test_cut_download_continues(home, server):
    server.faults.append(on(FILE, cut_at(GGUF, 100_000), times=1))
    home.fails([f"hf:{REPO}"], "ended early", "100 kB are kept")
    assert [part.stat().st_size for part in home.parts()] == [100_000]
    code, out, _ = home.pull(f"hf:{REPO}")
    assert code == 0 and Path(out).read_bytes() == GGUF
    again = server.asked(FILE)[-1]
    assert (again["Range"], again["If-Range"]) == ("bytes=100000-", f'"{sha256(GGUF)[:16]}"')


def test_cut_downloads_are_retried(home, server):
    server.faults += [on(FILE, cut_at(GGUF, upto), times=1) for upto in (50_000, 200_000)]
    code, out, errors = home.pull(f"hf:{REPO}", "--retries", "2")
    assert code == 0 and Path(out).read_bytes() == GGUF
    assert errors.count("Retrying in") == 2 and [headers.get("Range") for headers in server.asked(FILE)] == [
        None, "bytes=50000-", "bytes=200000-"]


def test_killed_download_continues(home, server):
    held = threading.Event()

    def stall(handler):
        handler.send_file(GGUF, 100_000)
        handler.wfile.flush()
        held.wait(PATIENCE_S)
    server.faults.append(on(FILE, stall, times=1))
    process = home.start(f"hf:{REPO}")
    deadline = time.monotonic() + PATIENCE_S
    while sum(part.stat().st_size for part in home.parts()) < 100_000:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    code, _, errors = home.pull(f"hf:{REPO}")
    assert code == 1 and "Another command fetches this model." in errors
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert home.visible() == []
    assert home.pull(f"hf:{REPO}")[0] == 0
    held.set()
    assert server.asked(FILE)[-1]["Range"] == "bytes=100000-"


def test_wrong_digest_is_refused(home, server):
    server.files[FILE] = OTHER
    home.fails([f"hf:{REPO}"], f"is {sha256(OTHER)}, but {REPO} states {sha256(GGUF)}")
    assert [part.stat().st_size for part in home.parts()] == [0], "the bytes are not continued"


def test_changed_file_is_fetched_from_its_start(home, server):
    server.faults.append(on(FILE, cut_at(GGUF, 100_000), times=1))
    home.fails([f"hf:{REPO}"], "ended early")
    server.add_repository(REPO, {"Tiny-Q4_K_M.gguf": OTHER})
    code, out, _ = home.pull(f"hf:{REPO}")
    assert code == 0 and Path(out).read_bytes() == OTHER


def test_mixed_versions_without_etags_are_fetched_again(home, server):
    """The digest shows that the older part belongs to another version."""
    def without_etag(handler):
        handler.etag = lambda data: "W/" + f'"{len(data)}"'
        handler.send_file(server.files[FILE], 100_000 if len(server.asked(FILE)) == 1 else None)
    server.faults.append(on(FILE, without_etag))
    home.fails([f"hf:{REPO}"], "ended early")
    server.add_repository(REPO, {"Tiny-Q4_K_M.gguf": OTHER})
    code, out, errors = home.pull(f"hf:{REPO}", "--retries", "1")
    assert code == 0 and Path(out).read_bytes() == OTHER, errors
    assert [headers.get("Range") for headers in server.asked(FILE)] == [None, "bytes=100000-", None]


def test_ignored_range_starts_again(home, server):
    server.faults.append(on(FILE, cut_at(GGUF, 100_000), times=1))
    home.fails([f"hf:{REPO}"], "ended early")
    server.faults.append(on(FILE, lambda handler: handler.answer(200, GGUF)))
    code, out, _ = home.pull(f"hf:{REPO}")
    assert code == 0 and Path(out).read_bytes() == GGUF and "Range" in server.asked(FILE)[-1]


def test_wrong_range_starts_again(home, server):
    server.faults.append(on(FILE, cut_at(GGUF, 100_000), times=1))
    home.fails([f"hf:{REPO}"], "ended early")
    wrong = {"Content-Range": f"bytes 5-{len(GGUF) - 1}/{len(GGUF)}"}
    server.faults.append(on(FILE, lambda handler: handler.answer(206, GGUF[5:], wrong), times=1))
    code, out, errors = home.pull(f"hf:{REPO}", "--retries", "1")
    assert code == 0 and Path(out).read_bytes() == GGUF and "another range" in errors


def test_range_beyond_the_end(home, server):
    """416: of a file that became shorter, and of one that is whole."""
    url = server.url + "/plain/Tiny.gguf"
    server.files["/plain/Tiny.gguf"] = GGUF[:200_000]
    server.faults.append(on("/plain/Tiny.gguf", cut_at(GGUF, 250_000), times=1))
    home.fails([url], "ended early")
    server.faults.append(on("/plain/Tiny.gguf", lambda handler: handler.answer(416, b"no", {"Content-Range": "bytes */200000"}), times=1))
    code, out, errors = home.pull(url, "--retries", "1")
    assert code == 0 and Path(out).read_bytes() == GGUF[:200_000] and "has changed" in errors

    server.files["/plain/Whole.gguf"] = GGUF
    stalled = on("/plain/Whole.gguf", cut_at(GGUF + b"?", len(GGUF)), times=1)
    server.faults.append(stalled)
    home_of_whole = Home(home.folder / "whole", server)
    home_of_whole.fails([server.url + "/plain/Whole.gguf"], "ended early")
    part, = home_of_whole.parts()
    part.with_name(part.name + ".etag").write_text(f'"{sha256(GGUF)[:16]}"')
    code, out, _ = home_of_whole.pull(server.url + "/plain/Whole.gguf")
    assert code == 0 and Path(out).read_bytes() == GGUF


def test_silent_server(home, server):
    held = threading.Event()

    def stall(handler):
        handler.send_response(200)
        handler.send_header("Content-Length", str(len(GGUF)))
        handler.end_headers()
        handler.wfile.write(GGUF[:1000])
        handler.wfile.flush()
        held.wait(PATIENCE_S)
    server.faults.append(on(FILE, stall, times=1))
    home.fails([f"hf:{REPO}", "--timeout", "5"], "was lost")
    held.set()
    assert home.pull(f"hf:{REPO}")[0] == 0
    assert server.asked(FILE)[-1]["Range"] == "bytes=1000-"


def test_slow_server_is_awaited(home, server):
    def trickle(handler):
        handler.send_response(200)
        handler.send_header("Content-Length", str(len(GGUF)))
        handler.end_headers()
        for at in range(0, len(GGUF), 30_000):
            handler.wfile.write(GGUF[at:at + 30_000])
            handler.wfile.flush()
            time.sleep(0.6)
    server.faults.append(on(FILE, trickle))
    assert home.pull(f"hf:{REPO}", "--timeout", "5", "--retries", "0")[0] == 0, "the limit is for each step"


def test_full_disk(home, server):
    def limit():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
    home.fails([f"hf:{REPO}"], "disk is full", "continues there", preexec_fn=limit)
    assert [part.stat().st_size for part in home.parts()] == [100_000]
    assert home.pull(f"hf:{REPO}")[0] == 0
    assert server.asked(FILE)[-1]["Range"] == "bytes=100000-"


def test_room_is_checked_before_the_download(home, server):
    huge = {"lfs": {"sha256": sha256(GGUF), "size": 10**18}}
    server.add_repository(REPO, {"Tiny-Q4_K_M.gguf": GGUF}, {"Tiny-Q4_K_M.gguf": huge})
    home.fails([f"hf:{REPO}"], "1000000000.0 GB more", "are free")
    assert server.asked(FILE) == []


@pytest.mark.parametrize("status, token, sentence", [
    (401, "", "put a token with access in HF_TOKEN"), (401, "hf_x", "does not accept the token in HF_TOKEN"),
    (403, "hf_x", "its terms must be accepted"), (404, "", "has no ada/Tiny-GGUF (HTTP 404)"),
    (429, "", "takes no more requests for now"), (503, "", "try again later"), (418, "", "answered HTTP 418")])
def test_refused_repository(home, server, status, token, sentence):
    server.faults.append(lambda handler: handler.answer(status, b"<html>\x1b[31mno</html>") or True)
    home.fails([f"hf:{REPO}"], sentence, environment={"HF_TOKEN": token})


@pytest.mark.parametrize("status", [401, 403, 404, 500])
def test_refused_file(home, server, status):
    server.faults.append(on(FILE, lambda handler: handler.answer(status, b"no")))
    home.fails([f"hf:{REPO}"], f"HTTP {status}", "Tiny-Q4_K_M.gguf")


def test_busy_server_is_asked_again(home, server):
    server.faults.append(on(FILE, lambda handler: handler.answer(503, b"", {"Retry-After": "1"}), times=1))
    assert home.pull(f"hf:{REPO}", "--retries", "1")[0] == 0


def test_endless_redirect(home, server):
    server.faults.append(on(FILE, lambda handler: handler.answer(302, headers={"Location": FILE})))
    home.fails([f"hf:{REPO}"], "redirects more than 8 times")
    assert len(server.asked(FILE)) == 9


@pytest.mark.parametrize("location", ["ftp://127.0.0.1/x.gguf", "file:///etc/passwd", "http://user@127.0.0.1/x", "http:// x/", ""])
def test_unusable_redirect(home, server, location):
    server.faults.append(on(FILE, lambda handler: handler.answer(302, headers={"Location": location})))
    home.fails([f"hf:{REPO}"])


def test_token_stays_with_the_hub(home, server):
    other = ModelServer()
    other.files["/signed"] = GGUF
    server.files[FILE] = f"/here/{COMMIT}"
    server.files[f"/here/{COMMIT}"] = other.url + "/signed?key=1"
    assert home.pull(f"hf:{REPO}", environment={"HF_TOKEN": "hf_secret"})[0] == 0
    assert {headers.get("Authorization") for _, headers in server.requests} == {"Bearer hf_secret"}
    assert [headers.get("Authorization") for _, headers in other.requests] == [None]
    server.add_ollama("library/tiny", "1b", OTHER)
    server.requests.clear()
    assert home.pull("tiny:1b", environment={"HF_TOKEN": "hf_secret"})[0] == 0
    assert {headers.get("Authorization") for _, headers in server.requests} == {None}
    other.shutdown()


def test_wrong_length(home, server):
    server.faults.append(on(FILE, lambda handler: handler.answer(200, GGUF[:-1])))
    home.fails([f"hf:{REPO}"], f"sends {len(GGUF) - 1} bytes for Tiny-Q4_K_M.gguf, which has {len(GGUF)}")


def test_too_many_bytes(home, server):
    def chunked(handler):
        handler.send_response(200)
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        handler.wfile.write(b"%x\r\n" % (len(GGUF) + 1) + GGUF + b"?\r\n0\r\n\r\n")
    server.faults.append(on(FILE, chunked))
    home.fails([f"hf:{REPO}"], f"sends more than the {len(GGUF)} bytes")


def test_answer_without_http(home, server):
    server.faults.append(on(FILE, lambda handler: handler.wfile.write(b"SSH-2.0-OpenSSH\r\n" * 9) and handler.cut()))
    home.fails([f"hf:{REPO}"], "Cannot reach")


@pytest.mark.parametrize("listing", [b"", b"[]", b"{", b'{"sha": "x"}', b'{"sha": "x", "siblings": [1, {"rfilename": 7}]}',
                                     b'{"a":' * 2000])
def test_senseless_listing(home, server, listing):
    server.files[f"/api/models/{REPO}/revision/main"] = listing
    home.fails([f"hf:{REPO}"])


@pytest.mark.parametrize("name", ["..gguf", "x\x1b[31m-Q4_K_M.gguf", "a/\\..\\x-Q4_K_M.gguf", ".hidden-Q4_K_M.gguf", "y" * 250 + ".gguf"])
def test_unusable_file_names(home, server, name):
    server.add_repository(REPO, {name: GGUF})
    home.fails([f"hf:{REPO}"])


def test_names_cannot_leave_the_folder(home, server):
    server.add_repository(REPO, {"../../../evil-Q4_K_M.gguf": GGUF})
    code, out, _ = home.pull(f"hf:{REPO}")
    assert code == 1 or out == str(home.models / REPO / "evil-Q4_K_M.gguf")
    server.add_repository("ada/Folder", {"config.json": b"{}", "m.safetensors": b"x", "../evil.json": b"{}", "/etc/evil.json": b"{}"})
    code, out, errors = home.pull("hf:ada/Folder")
    assert code == 0 and sorted(os.listdir(out)) == ["config.json", "m.safetensors"], errors
    assert not list(home.folder.rglob("evil.json"))
    for reference in ("hf:../x", "hf:a/..", "../../x", "a/b/c", "hf:a/.b", "x:../y", "x.gguf", "", "hf:a/b:"):
        code, _, errors = home.pull(reference)
        assert code == 2 and "is no model to pull" in errors, reference


def test_split_model_is_placed_as_a_whole(home, server):
    parts = {f"Q4_K_M/Big-Q4_K_M-0000{i}-of-00003.gguf": b"GGUF" + bytes([i]) * 50_000 for i in (1, 2, 3)}
    server.add_repository("ada/Big", parts | {"Q8_0/Big-Q8_0-00001-of-00002.gguf": GGUF})
    second = f"/ada/Big/resolve/{COMMIT}/Q4_K_M/Big-Q4_K_M-00002-of-00003.gguf"
    server.faults.append(on(second, cut_at(parts["Q4_K_M/Big-Q4_K_M-00002-of-00003.gguf"], 20_000), times=1))
    home.fails(["hf:ada/Big"], "ended early")
    code, out, errors = home.pull("hf:ada/Big")
    assert code == 0 and out == str(home.models / "ada/Big/Big-Q4_K_M/Big-Q4_K_M-00001-of-00003.gguf"), errors
    assert [path.read_bytes() for path in sorted(Path(out).parent.iterdir())] == list(parts.values())
    assert len(server.asked("00001-of-00003")) == 1 and server.asked("00002-of-00003")[-1]["Range"] == "bytes=20000-"
    home_of_other = Home(home.folder / "other", server)
    home_of_other.fails(["hf:ada/Big:Q8_0"], "no file in Q8_0")


def test_safetensors_folder(home, server):
    files = {"config.json": b'{"model_type": "llama"}', "model.safetensors": b"weights", "tokenizer.json": b"{}",
             "README.md": b"#", "original/consolidated.safetensors": b"x", "consolidated.safetensors": b"y", "run.py": b"evil"}
    server.add_repository("ada/Tiny", files)
    code, out, errors = home.pull("hf:ada/Tiny")
    assert code == 0 and out == str(home.models / "ada/Tiny"), errors
    assert sorted(os.listdir(out)) == ["config.json", "model.safetensors", "tokenizer.json"]
    server.add_repository("ada/Tiny", files | {"config.json": b'{"model_type": "qwen2"}'})
    code, out, errors = home.pull("hf:ada/Tiny")
    assert code == 0 and "qwen2" in Path(out, "config.json").read_text(), "a newer version replaces the folder"
    assert sorted(os.listdir(out)) == ["config.json", "model.safetensors", "tokenizer.json"]


def test_small_files_are_verified(home, server):
    files = {"config.json": b"{}", "model.safetensors": b"weights"}
    server.add_repository("ada/Tiny", files)
    server.files[f"/ada/Tiny/resolve/{COMMIT}/config.json"] = b"[]"
    home.fails(["hf:ada/Tiny"], "the digest of config.json".replace("the", "The"))


def test_folder_with_other_models_is_kept(home, server):
    assert home.pull(f"hf:{REPO}")[0] == 0
    server.add_repository(REPO, {"config.json": b"{}", "model.safetensors": b"weights"})
    code, _, errors = home.pull(f"hf:{REPO}:safetensors", "-q")
    assert code == 1 and "holds other models" in errors and home.visible() == [f"{REPO}/Tiny-Q4_K_M.gguf"]


def test_ollama_registry(home, server):
    server.add_ollama("library/tiny", "1b", GGUF)
    server.add_ollama("bob/tiny", "latest", OTHER)
    code, out, errors = home.pull("tiny:1b")
    assert code == 0 and out == str(home.models / "ollama/library/tiny-1b.gguf") and Path(out).read_bytes() == GGUF, errors
    code, out, errors = home.pull("bob/tiny")
    assert code == 0 and Path(out).read_bytes() == OTHER, errors
    home_of_other = Home(home.folder / "other", server)
    home_of_other.fails(["tiny:7b"], "has no tiny:7b (HTTP 404)")
    server.files["/v2/library/mlx/manifests/latest"] = b'{"layers": [{"mediaType": "application/vnd.ollama.image.tensor"}]}'
    home_of_other.fails(["mlx"], "the model has no GGUF file")


def test_url(home, server):
    server.files["/a/Tiny.gguf"] = GGUF
    code, out, errors = home.pull(server.url + "/a/Tiny.gguf?download=true", "--sha256", sha256(GGUF).upper())
    assert code == 0 and Path(out).read_bytes() == GGUF and out.endswith("/127.0.0.1/a/Tiny.gguf"), errors
    server.files["/b/Tiny.gguf"] = b"<!DOCTYPE html><title>Sign in</title>"
    other = Home(home.folder / "other", server)
    other.fails([server.url + "/b/Tiny.gguf"], "is no GGUF file")
    other.fails([server.url + "/b/Tiny.bin"], "must end in the name of a GGUF file")
    other.fails([server.url + "/a/Tiny.gguf", "--sha256", "0" * 64], "digest")
    assert other.pull(server.url + "/a/Tiny.gguf", "--sha256", "xyz")[0] == 2


def test_url_without_a_length(home, server):
    def unbounded(handler):
        handler.send_response(200)
        handler.end_headers()
        handler.wfile.write(GGUF[:1000])
        handler.cut()
    server.faults.append(on("/a/Tiny.gguf", unbounded))
    home.fails([server.url + "/a/Tiny.gguf"], "does not state the length")


def test_page_of_the_hub_is_a_repository(home, server):
    for page in (f"https://huggingface.co/{REPO}", f"https://huggingface.co/{REPO}/blob/main/Tiny-Q8_0.gguf"):
        code, out, errors = home.pull(page)
        assert code == 0, errors
    assert out.endswith("Tiny-Q8_0.gguf") and Path(out).read_bytes() == OTHER


def test_progress_on_a_terminal(home, server):
    server.faults.append(on(FILE, cut_at(GGUF, 100_000), times=1))
    master, slave = pty.openpty()
    process = subprocess.Popen([CLIENT, "pull", f"hf:{REPO}"], stdout=slave, stderr=slave, env=home.environment | {"TERM": "xterm"})
    os.close(slave)
    shown = b""
    while True:
        try:
            shown += os.read(master, 65536)
        except OSError:
            break
    assert process.wait(PATIENCE_S) == 0
    assert b"of 300 kB  33 %" in shown and b"Retrying in 1 s." in shown and b"100 %" in shown and b"\r\x1b[K" in shown


def test_https(tmp_path):
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", certificate, "-days", "2",
                    "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server = ModelServer(context)
    server.add_repository(REPO, {"Tiny-Q4_K_M.gguf": GGUF})
    home = Home(tmp_path, server)
    home.fails([f"hf:{REPO}"], "certificate is not trusted")
    code, out, errors = home.pull(f"hf:{REPO}", "--cacert", certificate)
    assert code == 0 and Path(out).read_bytes() == GGUF, errors
    assert Home(tmp_path / "system", server).pull(f"hf:{REPO}", environment={"SSL_CERT_FILE": str(certificate)})[0] == 0
    plain = ModelServer()
    plain.files["/x.gguf"] = GGUF
    server.files[FILE] = plain.url + "/x.gguf"
    other = Home(tmp_path / "other", server)
    other.fails([f"hf:{REPO}", "--cacert", certificate], "redirects from https to http")
    server.shutdown()
    plain.shutdown()


def test_nothing_listens(home):
    home.server.shutdown()
    home.server.server_close()
    home.fails([f"hf:{REPO}"], "Cannot reach 127.0.0.1")
