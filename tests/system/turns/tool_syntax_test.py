"""Models whose templates have their own tool-call syntax: clients get ordinary calls. The model would not produce one
by itself.

    scripts/python -m pytest tests/system/turns/tool_syntax_test.py
"""

import asyncio
import json
from pathlib import Path

import jsonschema
import pytest
import tiny_model
from conversation import Conversation
from server_process import PATIENCE_S
from wire import Http

TEMPLATES = Path(__file__).resolve().parents[2] / "golden" / "chat_template"
LLAMA = ["<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eom_id|>", "<|eot_id|>"]
MISTRAL = ["<s>", "[INST]", "[/INST]", "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]", "[TOOL_RESULTS]", "[/TOOL_RESULTS]", "[TOOL_CALLS]", "</s>"]
KIMI = ["<|im_system|>", "<|im_user|>", "<|im_assistant|>", "<|im_middle|>", "<|tool_calls_section_begin|>", "<|tool_calls_section_end|>",
        "<|tool_call_begin|>", "<|tool_call_argument_begin|>", "<|tool_call_end|>", "<|im_end|>"]
LFM2 = ["<|im_start|>", "<|tool_call_start|>", "<|tool_call_end|>", "<|im_end|>"]
GEMMA = ["<|turn>", "<|tool_call>", "<tool_call|>", '<|"|>', "<turn|>"]
ANY = 1 << 20
# Template file to special tokens (end of turn last) and the maximum number of calls per answer.
FAMILIES = {"qwen3_tools": (tiny_model.SPECIAL, ANY), "llama3.1_tools": (LLAMA, 1), "mistral_v3_tools": (MISTRAL, ANY),
            "mistral_tekken_tools": (MISTRAL, ANY), "mistral_v13_calls": (["[ARGS]", *MISTRAL], ANY),
            "qwen3_coder_calls": (tiny_model.SPECIAL, ANY), "glm45_calls": (["<|system|>", "<|observation|>", "<|assistant|>", "<|user|>"], ANY),
            "kimi_calls": (KIMI, ANY), "lfm2_calls": (LFM2, ANY), "gemma4_calls": (GEMMA, ANY),
            "deepseek_v32_calls": (["｜DSML｜", "<｜end▁of▁sentence｜>"], ANY)}
MARKERS = ["TOOL_CALLS", "<tool_call>", "<|tool_calls_section_begin|>", "<|tool_call_start|>", "<|tool_call>", "<｜DSML｜function_calls>"]
CITY = {"type": "object", "properties": {"city": {"enum": ["Bonn", "Paris"]}, "days": {"type": "integer", "minimum": 0, "maximum": 9}},
        "required": ["city", "days"], "additionalProperties": False}
NOW = {"type": "object", "properties": {}, "additionalProperties": False}
SCHEMAS = {"weather": CITY, "now": NOW}
TOOLS = [{"type": "function", "name": name, "parameters": schema, "strict": True} for name, schema in SCHEMAS.items()]
LIMITS = {"max_output_tokens": 300, "temperature": 1.5}


@pytest.fixture(params=FAMILIES)
def family(request, start, store, tmp_path):
    """Yields a function that starts a server with a tiny model of the family, and the maximum number of calls per
    answer."""
    special, most = FAMILIES[request.param]
    tokens = tiny_model.byte_tokens() + [merge.replace(" ", "") for merge in tiny_model.MERGES] + special
    model = tiny_model.make(tmp_path / "tiny.gguf", more={
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": [tiny_model.CONTROL if token in special else tiny_model.NORMAL for token in tokens],
        "tokenizer.ggml.bos_token_id": len(tokens) - len(special), "tokenizer.ggml.eos_token_id": len(tokens) - 1,
        "tokenizer.chat_template": (TEMPLATES / f"{request.param}.jinja").read_text(),
    })
    return lambda: start("--store-path", store, "--memory-len", 4096, model=model), most


def run(talk):
    asyncio.run(asyncio.wait_for(talk, 2 * PATIENCE_S))


def text_of(answer):
    return "".join(part["text"] for item in answer["output"] if item["type"] == "message" for part in item["content"])


def calls_of(answer):
    """The answer's calls, each checked against its schema."""
    calls = [item for item in answer["output"] if item["type"] == "function_call"]
    for call in calls:
        if call["status"] == "completed":
            jsonschema.validate(json.loads(call["arguments"]), SCHEMAS[call["name"]])
    return calls


def test_choices_are_followed(family):
    begin, most = family
    server = begin()

    async def talk():
        async with Conversation(server.port) as talk:
            for seed in range(3):
                ask = {"tools": TOOLS, "seed": seed, **LIMITS}
                required = await talk.ask("Which?", tool_choice="required", parallel_tool_calls=False, **ask)
                assert required["status"] == "completed" and len(calls_of(required)) == len(required["output"]) == 1, required
                assert len(calls_of(await talk.ask("Which?", tool_choice="required", **ask))) == 1
                several = await talk.ask("Which?", tool_choice="required", parallel_tool_calls=True, **ask)
                assert 1 <= len(calls_of(several)) <= most and not text_of(several)
                named = await talk.ask("When?", tool_choice={"type": "function", "name": "now"}, **ask)
                assert [(call["name"], call["arguments"]) for call in calls_of(named)] == [("now", "{}")]
                for choice in ("none", "auto"):
                    answer = await talk.ask("Well?", tool_choice=choice, **ask)
                    calls = calls_of(answer)
                    assert choice == "auto" or not calls
                    assert not any(marker in text_of(answer) for marker in MARKERS)
                    assert not text_of(answer).startswith('{"name": "')

    run(talk())


def test_results_are_rendered_and_the_cache_is_reused(family):
    begin, _ = family
    server = begin()

    async def talk():
        async with Conversation(server.port) as talk:
            ask = {"tools": TOOLS, "parallel_tool_calls": False, "seed": 5, **LIMITS}
            first = await talk.ask("Which?", tool_choice="required", **ask)
            [call] = calls_of(first)
            second = await talk.ask([{"type": "function_call_output", "call_id": call["call_id"], "output": '{"degrees": 21}'}],
                                    tool_choice="none", **ask)
            cached = second["usage"]["input_tokens_details"]["cached_tokens"]
            assert cached >= first["usage"]["input_tokens"]
            items = (await talk.http.call("GET", f"/v1/conversations/{talk.id}/items?order=asc"))[1]["data"]
            assert [item["type"] for item in items] == ["message", "function_call", "function_call_output", "message"]
        server.kill()
        http = Http(begin().port)
        again = (await http.call("GET", f"/v1/conversations/{talk.id}/items?order=asc"))[1]["data"]
        http.close()
        assert again == items

    run(talk())


def test_events_match_any_other_call(family):
    begin, _ = family
    server = begin()

    async def talk():
        async with Conversation(server.port) as talk:
            events = await talk.socket.ask(conversation=talk.id, input="Which?", tools=TOOLS, tool_choice="required",
                                           parallel_tool_calls=False, seed=2, **LIMITS)
            types = [event["type"] for event in events]
            done = [event for event in events if event["type"] == "response.function_call_arguments.done"]
            deltas = "".join(event["delta"] for event in events if event["type"] == "response.function_call_arguments.delta")
            assert len(done) == 1 and deltas == done[0]["arguments"]
            assert types[-3:] == ["response.function_call_arguments.done", "response.output_item.done", "response.completed"]
            assert "response.output_text.delta" not in types

    run(talk())


def test_stateless_client_reuses_its_cache(family):
    begin, _ = family
    server = begin()

    async def talk():
        http = Http(server.port)
        ask = {"model": "tiny", "tools": [{"type": "function", "function": {k: v for k, v in t.items() if k != "type"}} for t in TOOLS],
               "seed": 3, "temperature": 1.5, "max_tokens": 300}
        messages = [{"role": "user", "content": "When?"}]
        status, first = await http.call("POST", "/v1/chat/completions", ask | {
            "messages": messages, "tool_choice": {"type": "function", "function": {"name": "now"}}})
        assert status == 200 and first["choices"][0]["finish_reason"] == "tool_calls", first
        message = first["choices"][0]["message"]
        messages += [message, {"role": "tool", "tool_call_id": message["tool_calls"][0]["id"], "content": "12:00"}]
        status, second = await http.call("POST", "/v1/chat/completions", ask | {"messages": messages, "tool_choice": "none"})
        assert status == 200, second
        usage = second["usage"]
        # Everything but the tool result and the next answer's header was in the cache.
        assert usage["prompt_tokens"] - usage["prompt_tokens_details"]["cached_tokens"] < 150
        assert usage["prompt_tokens_details"]["cached_tokens"] >= first["usage"]["prompt_tokens"]
        http.close()

    run(talk())
