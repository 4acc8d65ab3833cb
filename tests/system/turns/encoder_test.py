"""Conversations with an encoder-decoder model (T5): every turn encodes the conversation, on every API; conversations
are stored and continued as usual, and unsupported features are refused by name.

    scripts/python -m pytest tests/system/turns/encoder_test.py
"""

import json
import shutil

import pytest
from conversation import Conversation, answer_text, reused
from server_process import ROOT, run
from wire import Http

TURN = {"max_output_tokens": 12, "ignore_eos": True, "temperature": 0}
WEIGHTS = ("--load-format", "dummy", "--served-model-name", "t5", "--memory-len", 128, "--pinned-max", 200)


@pytest.fixture(scope="module")
def t5(tmp_path_factory):
    """The shape of a small one, with a matching tokenizer."""
    folder = tmp_path_factory.mktemp("t5")
    (folder / "config.json").write_text(json.dumps({
        "model_type": "t5", "vocab_size": 1008, "d_model": 64, "d_kv": 16, "num_heads": 4, "d_ff": 128, "num_layers": 2,
        "feed_forward_proj": "gated-gelu", "tie_word_embeddings": False, "decoder_start_token_id": 0, "eos_token_id": 2}))
    (folder / "tokenizer_config.json").write_text(json.dumps({"eos_token": "</s>", "unk_token": "<unk>"}))
    shutil.copy(ROOT / "tests/golden/tokenizer/unigram/tokenizer.json", folder)
    return folder


async def ask(port, id, text, **fields):
    async with Conversation(port, id) as talk:
        return talk.id, await talk.ask(text, **(TURN | fields))


async def call(port, path, body):
    http = Http(port)
    try:
        return await http.call("POST", path, body)
    finally:
        http.close()


def test_every_turn_reads_the_whole_conversation(start, t5, store):
    flags = (*WEIGHTS, "--store-path", store)
    server = start(*flags, model=t5)
    id, first = run(ask(server.port, None, "Translate this."))
    assert answer_text(first) and first["usage"]["output_tokens"] == 12
    assert reused(first)[1:] == (0, first["usage"]["input_tokens"])
    _, second = run(ask(server.port, id, "And this."))
    assert reused(second)[1] == 0 and second["usage"]["input_tokens"] > first["usage"]["input_tokens"] + 12
    # One request with these messages, and no cached state, gives the same answer.
    said = [{"role": "user", "content": "Translate this."}, {"role": "assistant", "content": answer_text(first)},
            {"role": "user", "content": "And this."}]
    status, whole = run(call(server.port, "/v1/chat/completions", {
        "model": "t5", "messages": said, "max_tokens": 12, "temperature": 0, "ignore_eos": True}))
    assert status == 200 and whole["choices"][0]["message"]["content"] == answer_text(second)
    server.kill()

    server = start(*flags, model=t5)
    _, third = run(ask(server.port, id, "At last."))
    server.stop()
    server = start(*flags, model=t5)
    other, _ = run(ask(server.port, None, "Translate this."))
    run(ask(server.port, other, "And this."))
    assert answer_text(run(ask(server.port, other, "At last."))[1]) == answer_text(third)


def test_truncated_answer_continues_after_its_input(start, t5):
    server = start(*WEIGHTS, model=t5)
    _, whole = run(ask(server.port, None, "Translate this.", max_output_tokens=24))

    async def in_two():
        async with Conversation(server.port) as talk:
            await talk.ask("Translate this.", **TURN)
            more = await talk.socket.ask(conversation=talk.id, input=[], **TURN)
            return await talk.items(), more[-1]["response"]

    items, more = run(in_two())
    assert items[-1][1] == answer_text(whole) and reused(more)[0] == "slot" and reused(more)[1] > 12


def test_raw_prompt_is_the_input(start, t5):
    server = start(*WEIGHTS, model=t5)
    status, answer = run(call(server.port, "/v1/completions", {
        "model": "t5", "prompt": "Translate this.", "max_tokens": 12, "temperature": 0, "ignore_eos": True}))
    assert status == 200, answer
    _, turn = run(ask(server.port, None, "Translate this."))
    assert answer["choices"][0]["text"] == answer_text(turn)


def test_overlong_input_slides_and_unsupported_options_are_refused(start, t5):
    server = start(*WEIGHTS, model=t5)

    async def long():
        async with Conversation(server.port) as talk:
            left_out = []
            for i in range(12):
                answer = await talk.ask(f"Number {i}, and some more words to fill it.", **TURN)
                assert answer["usage"]["input_tokens"] <= 201
                left_out.append(answer["ringside"]["messages_evicted"])
            assert left_out == sorted(left_out) and left_out[0] == 0 and 0 < left_out[-1] < 23, left_out
            refused = await talk.refused("word " * 300)
            assert refused["error"]["code"] == "context_length_exceeded", refused
            cut = await talk.ask("word " * 300 + "end", truncation="auto", **TURN)
            assert 190 < cut["usage"]["input_tokens"] <= 201, cut  # cut at a character boundary, without retokenizing
            assert cut["ringside"]["messages_evicted"] == len(await talk.items()) - 1, cut
            tool = {"type": "function", "name": "f", "parameters": {"type": "object", "properties": {}}}
            refused = await talk.refused("Hi", tools=[tool])
            assert "tools" in refused["error"]["message"], refused
            refused = await talk.refused("Hi", beam_width=4, max_output_tokens=8)
            assert "encoder" in refused["error"]["message"], refused

    run(long())
    status, refused = run(call(server.port, "/v1/completions", {
        "model": "t5", "prompt": "Hello.", "max_tokens": 1, "echo": True, "logprobs": 1}))
    assert status == 400 and "encoder" in refused["error"]["message"], refused
    server.stop()
    server = start(*WEIGHTS, "--tensor-parallel-size", 2, model=t5, ready=False)
    assert server.wait() == 78 and "an encoder, which ranks cannot share" in server.tail()
    server = start(*WEIGHTS, "--chat-template", "chatml", model=t5, ready=False)
    assert server.wait() == 78 and "requires a template file" in server.tail()
