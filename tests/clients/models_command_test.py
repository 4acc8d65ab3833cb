"""`ringside models` and `ringside run NAME`: models in the folders of four programs, found, inspected and started.

Environment: RINGSIDE_CLIENT and RINGSIDE_SERVER, the binaries, in one folder.
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from model_server import ModelServer, sha256

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "system"))
import tiny_model  # noqa: E402

CLIENT = os.path.abspath(os.environ.get("RINGSIDE_CLIENT", "build/cpu/bin/ringside"))
SERVER = os.path.abspath(os.environ.get("RINGSIDE_SERVER", "build/cpu/bin/ringside-server"))
PATIENCE_S = int(os.environ.get("TEST_PATIENCE_S", 120))


class Machine:
    """A home folder, to which tests add models."""

    def __init__(self, folder):
        self.home = folder
        kept = {name: value for name, value in os.environ.items()
                if not name.startswith(("HF_", "OLLAMA_", "RINGSIDE_", "XDG_"))}
        self.environment = kept | {"HOME": str(folder), "OLLAMA_MODELS": str(folder / "ollama"), "NO_PROXY": "127.0.0.1",
                                   "OLLAMA_REGISTRY": "http://127.0.0.1:1", "HF_ENDPOINT": "http://127.0.0.1:1"}

    def add(self, path, seed=1, **more):
        path = self.home / path
        path.parent.mkdir(parents=True, exist_ok=True)
        return Path(tiny_model.make(path, seed=seed, **more))

    def add_to_ollama(self, name, data):
        manifest = self.home / "ollama/manifests/registry.ollama.ai" / name
        manifest.parent.mkdir(parents=True, exist_ok=True)
        digest = sha256(data)
        layer = {"mediaType": "application/vnd.ollama.image.model", "digest": "sha256:" + digest, "size": len(data)}
        manifest.write_text(json.dumps({"layers": [layer]}))
        blob = self.home / "ollama/blobs" / f"sha256-{digest}"
        blob.parent.mkdir(parents=True, exist_ok=True)
        blob.write_bytes(data)
        return blob

    def run(self, *words, text="", environment=None):
        return subprocess.run([CLIENT, *words], input=text, capture_output=True, text=True, timeout=PATIENCE_S, check=False,
                              env=self.environment | (environment or {}))

    def models(self):
        done = self.run("models", "--json")
        assert done.returncode == 0, done
        return {(model["place"], model["name"]): model for model in json.loads(done.stdout)["models"]}


@pytest.fixture
def machine(tmp_path):
    return Machine(tmp_path)


def test_no_models(machine):
    done = machine.run("models")
    assert done.returncode == 0 and "ringside pull" in done.stdout
    assert machine.models() == {}


def test_models_of_four_programs_are_found(machine):
    ours = machine.add(".cache/ringside/models/ada/Tiny-GGUF/Tiny-Q4_K_M.gguf")
    machine.add(".cache/ringside/models/.partial/x/Half.gguf")
    hub = machine.home / ".cache/huggingface/hub/models--bob--Tiny-GGUF"
    blob = machine.add(hub / "blobs/abc")
    for revision in ("old", "new"):
        (hub / "snapshots" / revision).mkdir(parents=True)
        (hub / "snapshots" / revision / f"Tiny-{revision}.gguf").symlink_to(blob)
    (hub / "refs").mkdir()
    (hub / "refs/main").write_text("old\n")
    studio = machine.add(".lmstudio/models/cat/Tiny/Tiny.F32.gguf")
    of_ollama = machine.add_to_ollama("library/tiny/1b", ours.read_bytes())
    machine.add_to_ollama("dan/tiny/latest", ours.read_bytes())
    cut = machine.add_to_ollama("library/cut/latest", b"GGUF and more")
    cut.write_bytes(b"GGUF")
    models = machine.models()
    assert sorted(models) == sorted([("ringside", "Tiny-Q4_K_M"), ("Hugging Face", "Tiny-old"), ("LM Studio", "Tiny.F32"),
                                     ("Ollama", "tiny:1b"), ("Ollama", "dan/tiny:latest")])
    assert models["LM Studio", "Tiny.F32"]["path"] == str(studio) and models["Ollama", "tiny:1b"]["path"] == str(of_ollama)
    for model in models.values():
        assert model["loads"] and model["fits"] and model["bytes"] == ours.stat().st_size, model
        assert model["memory_bytes"] > model["bytes"] and model["tokens_per_second"] > 0
    table = machine.run("models").stdout
    assert re.search(r"tiny:1b +Ollama +\d+ kB +\d+ MB +\d+\n", table) and re.search(r"reads [\d]+ GB/s", table)


def test_refusals_are_the_servers_own(machine):
    odd = machine.add(".cache/ringside/models/odd.gguf", more={"general.architecture": "gemma5"})
    (odd.parent / "page.gguf").write_text("<!DOCTYPE html>")
    models = machine.models()
    for name in ("odd", "page"):
        model = models["ringside", name]
        refused = subprocess.run([SERVER, "--model", model["path"], "--port", "0", "--log-format", "text"], capture_output=True, text=True,
                                 timeout=PATIENCE_S, check=False, env=machine.environment)
        assert not model["loads"] and model["reason"] in refused.stderr, (model, refused.stderr)
    assert "the nearest that is: 'gemma4'" in models["ringside", "odd"]["reason"]
    table = machine.run("models").stdout
    assert "These do not load:" in table and "odd (ringside): architecture 'gemma5' is not supported" in table


@pytest.mark.parametrize("name", ["Tiny-Q4_K_M", "tiny", "hf:ada/Tiny-GGUF", "hf:ada/Tiny-GGUF:Q4_K_M"])
def test_run_by_name(machine, name):
    machine.add(".cache/ringside/models/ada/Tiny-GGUF/Tiny-Q4_K_M.gguf", endless=True)
    done = machine.run("run", name, "--max-tokens", "5", text="Hello.")
    assert done.returncode == 0 and done.stdout.strip(), done


def test_run_pulls_a_model_once(machine):
    server = ModelServer()
    server.add_ollama("library/tiny", "1b", machine.add("x.gguf", endless=True).read_bytes())
    for _ in range(2):
        done = machine.run("run", "tiny:1b", "--max-tokens", "5", text="Hello.", environment={"OLLAMA_REGISTRY": server.url})
        assert done.returncode == 0 and done.stdout.strip(), done
    assert len(server.asked("/store/")) == 1
    server.shutdown()


def test_run_explains_unknown_names(machine):
    machine.add(".cache/ringside/models/Tiny-Q4_K_M.gguf")
    machine.add(".cache/ringside/models/Tiny-Q8_0.gguf")
    for name, sentence in (("Tiny-Q4_K_N", "Did you mean Tiny-Q4_K_M?"), ("./none", "There is no file or folder ./none."),
                           ("Tiny", '"Tiny" can mean several models: Tiny-Q4_K_M, Tiny-Q8_0.'), ("a b", 'There is no model "a b".')):
        done = machine.run("run", name, text="Hello.")
        assert done.returncode == 1 and sentence in done.stderr and done.stdout == "", done
