"""Runs the Claude Code and Codex command lines with only a base URL and a key. With the server's default settings each
gets its first answer, and the second turn computes little more than its new tokens.

    python3 -m venv agents && agents/bin/pip install pytest -r tests/agents/requirements.txt
    agents/bin/python -m pytest tests/agents

Not part of the regular test run: the two programs download 700 MB. The model is scripted and has one token per byte, so
an agent's prompt is about 50,000 tokens.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "system"))
import scripted_model  # noqa: E402
from server_process import ServerProcess  # noqa: E402

PATIENCE_S = 300
ADDED = 500  # token limit for a second turn: question, markup and last answer

CODEX_SETTINGS = """
model = "gpt-5.5"
model_provider = "ringside"
[model_providers.ringside]
name = "ringside"
base_url = "http://127.0.0.1:{port}/v1"
wire_api = "responses"
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("server")
    model = scripted_model.make(folder / "think.gguf", scripted_model.THINK, window=1 << 20)
    with ServerProcess(model, "--model-alias", "claude-*", "--model-alias", "gpt-*", "--store-path", folder / "store",
                       folder=folder) as server:
        yield server.wait_until_ready()


def run(program, *arguments, folder, **environment):
    """Returns the program's standard output."""
    done = subprocess.run([program, *arguments], cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=PATIENCE_S, env=os.environ | {"HOME": str(folder)} | environment)
    assert done.returncode == 0, (done.stdout[-2000:], done.stderr[-2000:])
    return done.stdout


def test_claude_code(server, tmp_path):
    sdk = pytest.importorskip("claude_agent_sdk")
    program = Path(sdk.__file__).parent / "_bundled" / "claude"

    def ask(*arguments):
        answer = json.loads(run(program, *arguments, "--output-format", "json", folder=tmp_path,
                                ANTHROPIC_BASE_URL=f"http://127.0.0.1:{server.port}", ANTHROPIC_API_KEY="any"))
        assert answer["result"] == scripted_model.ANSWER
        return answer["usage"]

    first, second = ask("-p", "What is it?"), ask("-c", "-p", "And now?")
    assert first["output_tokens_details"]["thinking_tokens"] > 0
    whole = first["input_tokens"] + first["cache_read_input_tokens"]
    assert second["cache_read_input_tokens"] >= whole
    assert second["input_tokens"] <= ADDED


def test_codex(server, tmp_path):
    package = pytest.importorskip("codex_cli_bin")
    program = Path(package.__path__[0]) / "bin" / "codex"
    (tmp_path / ".codex").mkdir()
    (tmp_path / ".codex" / "config.toml").write_text(CODEX_SETTINGS.format(port=server.port))

    def ask(*arguments):
        lines = run(program, "exec", *arguments, folder=tmp_path, OPENAI_API_KEY="any").splitlines()
        events = [json.loads(line) for line in lines if line.startswith("{")]
        assert [event["item"]["text"] for event in events if event["type"] == "item.completed"] == [scripted_model.ANSWER]
        return events[-1]["usage"]

    first = ask("--json", "--skip-git-repo-check", "What is it?")
    both = ask("resume", "--last", "--json", "--skip-git-repo-check", "And now?")  # total for the thread
    assert first["reasoning_output_tokens"] > 0
    read, cached = (both[name] - first[name] for name in ("input_tokens", "cached_input_tokens"))
    assert cached >= first["input_tokens"]
    assert read - cached <= ADDED
