"""Runs the Claude Code and Codex command lines with only a base URL and a key. With the server's default settings each
gets its first answer, and the second turn computes little more than its new tokens.

    scripts/client_tests agents
"""

import json
from pathlib import Path

import pytest
import scripted_model
from server_process import wait_for

ADDED = 500  # token limit for a second turn: question, markup and last answer

CODEX_SETTINGS = """
model = "gpt-5.5"
model_provider = "ringside"
[model_providers.ringside]
name = "ringside"
base_url = "http://127.0.0.1:{port}/v1"
wire_api = "responses"
supports_websockets = {sockets}
"""
SAID = "tool said 42"


def test_claude_code(server, run):
    sdk = pytest.importorskip("claude_agent_sdk")
    program = Path(sdk.__file__).parent / "_bundled" / "claude"

    def ask(*arguments):
        answer = json.loads(run(program, *arguments, "--output-format", "json",
                                ANTHROPIC_BASE_URL=f"http://127.0.0.1:{server.port}", ANTHROPIC_API_KEY="any"))
        assert answer["result"] == scripted_model.ANSWER
        return answer["usage"]

    first, second = ask("-p", "What is it?"), ask("-c", "-p", "And now?")
    assert first["output_tokens_details"]["thinking_tokens"] > 0
    whole = first["input_tokens"] + first["cache_read_input_tokens"]
    assert second["cache_read_input_tokens"] >= whole
    assert second["input_tokens"] <= ADDED


class Codex:
    """`flags`: of each call. `sockets`: the provider is configured to use WebSockets."""

    def __init__(self, server, run, folder, *flags, sockets=False):
        package = pytest.importorskip("codex_cli_bin")
        self.program = Path(package.__path__[0]) / "bin" / "codex"
        self.server, self.run, self.flags = server, run, flags
        (folder / ".codex").mkdir()
        (folder / ".codex" / "config.toml").write_text(CODEX_SETTINGS.format(port=server.port, sockets=json.dumps(sockets)))

    def ask(self, *arguments):
        """Runs the program; returns its events."""
        written = self.run(self.program, "exec", *self.flags, *arguments[:-1], "--json", "--skip-git-repo-check", arguments[-1],
                           OPENAI_API_KEY="any", CODEX_OSS_BASE_URL=f"http://127.0.0.1:{self.server.port}/v1")
        return [json.loads(line) for line in written.splitlines() if line.startswith("{")]

    def talk(self):
        """Asks two questions in one thread; all tokens of the first one must be cached for the second."""
        first, both = (self.usage_of(self.ask(*arguments)) for arguments in (("What is it?",), ("resume", "--last", "And now?")))
        assert first["reasoning_output_tokens"] > 0
        read, cached = (both[name] - first[name] for name in ("input_tokens", "cached_input_tokens"))
        assert cached >= first["input_tokens"]
        assert read - cached <= ADDED

    @staticmethod
    def usage_of(events):
        """Usage of the thread so far. Checks that the answer is the model's."""
        done = [event["item"] for event in events if event["type"] == "item.completed"]
        assert [item["text"] for item in done if item["type"] == "agent_message"] == [scripted_model.ANSWER], done
        return events[-1]["usage"]


def test_codex(server, run, tmp_path):
    Codex(server, run, tmp_path).talk()


def test_codex_over_websockets(server, run, tmp_path):
    def closed():
        return sum(value for name, value in server.metrics().items() if name.startswith("ringside_ws_close_total"))

    before = closed()
    Codex(server, run, tmp_path, sockets=True).talk()
    wait_for(lambda: closed() > before, "a WebSocket that Codex used")


def test_codex_with_the_api_of_ollama(server, run, tmp_path):
    Codex(server, run, tmp_path, "--oss", "--local-provider", "ollama", "-m", "gpt-oss:20b").talk()


@pytest.mark.parametrize("sockets", [False, True])
def test_codex_runs_commands(start, run, tmp_path, sockets):
    caller = start(scripted_model.calling("exec_command", json.dumps({"cmd": f"echo {SAID}"})))
    events = Codex(caller, run, tmp_path, "--dangerously-bypass-approvals-and-sandbox", sockets=sockets).ask("What is it?")
    done = [event["item"] for event in events if event["type"] == "item.completed"]
    [command] = [item for item in done if item["type"] == "command_execution"]
    assert command["exit_code"] == 0 and command["aggregated_output"].strip() == SAID
    assert done[-1]["text"] == scripted_model.ANSWER
    assert events[-1]["usage"]["cached_input_tokens"] >= events[-1]["usage"]["input_tokens"] / 2 - ADDED  # of two requests
