"""A server for AArch64, under QEMU, gives the host's answers: the same tokens with the same log probabilities, for each
instruction set. The cross-compiled server is RINGSIDE_ARM64_SERVER: scripts/test_arm64 --server.
"""

import os

import pytest
from conversation import Conversation
from server_process import run

SERVER = os.environ.get("RINGSIDE_ARM64_SERVER")
REAL_MODEL = os.environ.get("RINGSIDE_TEST_MODEL")
pytestmark = pytest.mark.skipif(not SERVER, reason="RINGSIDE_ARM64_SERVER is not set")


async def answers(port, tokens):
    """Logprobs of two turns of a chat, and the answers' texts."""
    messages, got = [], []
    async with Conversation(port) as talk:
        for words in ("Hello. Tell me about the sea, the wind and the rain.", "And the other one?"):
            messages.append({"role": "user", "content": words})
            status, answer = await talk.http.call("POST", "/v1/chat/completions", {
                "messages": messages, "temperature": 0, "ignore_eos": True, "max_tokens": tokens, "logprobs": True})
            assert status == 200, answer
            [choice] = answer["choices"]
            messages.append(choice["message"])
            got.append(choice["logprobs"]["content"])
    assert [len(one) for one in got] == [tokens, tokens]
    return got


@pytest.mark.parametrize("cpu, best", [("cortex-a72", "neon"), ("neoverse-n1", "neon_dotprod"), ("max", "neon_i8mm")])
@pytest.mark.parametrize("real", [False, True], ids=["tiny", "real"])
def test_answers_equal_those_of_the_host(cpu, best, real, start, model):
    if real and not REAL_MODEL:
        pytest.skip("RINGSIDE_TEST_MODEL is not set")
    chosen, tokens = (REAL_MODEL, 12) if real else (model, 48)
    flags = ("--instruction-set", best, "--memory-len", 512, "--slots", 1)
    theirs = start(*flags, model=chosen, binary=SERVER, launcher=("qemu-aarch64-static",), environment={"QEMU_CPU": cpu})
    ours = start("--memory-len", 512, "--slots", 1, model=chosen)
    assert run(answers(theirs.port, tokens)) == run(answers(ours.port, tokens))
    theirs.stop()
    ours.stop()
