"""aider with an effort of reasoning, over the faces of three providers.

    scripts/client_tests aider
"""

import sys
from pathlib import Path

import pytest
from scripted_model import ANSWER

PROGRAM = Path(sys.executable).parent / "aider"
QUIET = ["--no-git", "--yes-always", "--analytics-disable", "--no-check-update", "--no-show-model-warnings", "--no-show-release-notes",
         "--no-pretty", "--no-detect-urls"]


@pytest.mark.parametrize("stream", ["--stream", "--no-stream"])
@pytest.mark.parametrize("model, path", [("openai/gpt-5", "/v1"), ("anthropic/claude-sonnet-4-5", ""), ("ollama_chat/gpt-oss", "")])
def test_an_effort(server, run, model, path, stream):
    url = f"http://127.0.0.1:{server.port}"
    written = run(PROGRAM, "--model", model, "--reasoning-effort", "low", *QUIET, stream, "--message", "What is it?", OPENAI_API_BASE=url + path,
                  OPENAI_API_KEY="any", ANTHROPIC_API_BASE=url, ANTHROPIC_API_KEY="any", OLLAMA_API_BASE=url)
    assert ANSWER in written, written
