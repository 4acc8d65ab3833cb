"""A server on FasterTransformer checkpoints answers as on the safetensors they were made from. Also covers NeMo.

    scripts/python -m pytest tests/system/models/faster_transformer_test.py
"""

import sys

import tiny_gpt
from conversation import Conversation, answer_text
from server_process import ROOT, run

sys.path.insert(0, str(ROOT / "tests/golden"))
import make_faster_transformer  # noqa: E402


def two_turns(server):
    """Returns the answers, and the log probability of each token."""

    async def talk():
        async with Conversation(server.port) as talk:
            answers = [await talk.ask(text, temperature=0, max_output_tokens=24, ignore_eos=True, top_logprobs=2)
                       for text in ("Hello there.", "And then?")]
            assert answers[1]["usage"]["input_tokens_details"]["cached_tokens"] > 0
            return [(answer_text(answer), answer["output"][0]["content"][0]["logprobs"]) for answer in answers]

    answers = run(talk())
    assert all(len(logprobs) == 24 for _, logprobs in answers)
    return answers


def test_chats_for_any_checkpoint_gpu_count(start, tmp_path):
    safetensors, folder = tiny_gpt.make(tmp_path / "gpt"), tmp_path / "converted"
    for gpus in (1, 2, 4, 8):
        make_faster_transformer.write(safetensors, folder, gpus)
    tiny_gpt.write_vocabulary(folder)  # one vocabulary for all
    said = two_turns(start(model=safetensors))
    for gpus in (1, 2, 4, 8):
        assert two_turns(start(model=folder / f"{gpus}-gpu")) == said, gpus


def test_without_a_tokenizer(start, tmp_path):
    folder = make_faster_transformer.write(tiny_gpt.make(tmp_path / "gpt"), tmp_path / "converted")
    server = start(model=folder, ready=False)
    assert server.wait() != 0
    assert f"{folder} has no tokenizer: put tokenizer.json beside the weights" in server.tail()


def test_chats_from_a_nemo_checkpoint(start):
    server = start("--session-len", 60, "--chat-template", "plain", model=ROOT / "tests/golden/megatron/gpt.nemo")

    async def talk():
        async with Conversation(server.port) as talk:
            return await talk.ask("hello", temperature=0, max_output_tokens=8, ignore_eos=True)

    assert run(talk())["usage"]["output_tokens"] == 8
