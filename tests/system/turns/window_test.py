"""The default window, the reports when it is full, and answers that repeat themselves.

    scripts/python -m pytest tests/system/turns/window_test.py
"""

import json
import re
import urllib.error
import urllib.request

import tiny_model
from conversation import Conversation
from server_process import PATIENCE_S, run
from websockets.asyncio.client import connect

CONTEXT = 1 << 14  # of the tiny model
# How agents detect an overflow, per API.
OPENAI = r"maximum context length is (\d+) tokens\. However, your (?:messages|prompt) resulted in (\d+) tokens"
ANTHROPIC = r"prompt is too long: (\d+) tokens > (\d+) maximum"
OLLAMA = r"prompt too long; exceeded (?:max )?context length"
LONG = "A long story without an end. " * 200
MESSAGES = [{"role": "user", "content": LONG}]
# Long, except for the last message, which would fit alone.
HISTORY = [{"role": "user", "content": LONG}, {"role": "assistant", "content": "Well."}, {"role": "user", "content": "And?"}]
REFUSALS = (
    ("/v1/chat/completions", {"messages": MESSAGES}, OPENAI), ("/v1/chat/completions", {"messages": HISTORY}, OPENAI),
    ("/v1/chat/completions", {"messages": HISTORY, "stream": True}, OPENAI),
    ("/v1/completions", {"prompt": LONG}, OPENAI), ("/v1/embeddings", {"input": LONG}, OPENAI),
    ("/v1/responses", {"input": LONG}, OPENAI), ("/v1/responses", {"input": HISTORY, "store": False}, OPENAI),
    ("/v1/messages", {"messages": MESSAGES, "max_tokens": 9}, ANTHROPIC), ("/v1/messages", {"messages": HISTORY, "max_tokens": 9}, ANTHROPIC),
    ("/api/chat", {"messages": MESSAGES}, OLLAMA), ("/api/chat", {"messages": HISTORY, "truncate": False}, OLLAMA),
    ("/api/generate", {"prompt": LONG}, OLLAMA), ("/api/embed", {"input": LONG, "truncate": False}, OLLAMA))


def post(server, path, body):
    """Returns status and body."""
    request = urllib.request.Request(f"http://127.0.0.1:{server.port}{path}", json.dumps({"model": "tiny"} | body).encode(),
                                     {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


async def refused_by_realtime(server, fields):
    """Asks LONG, or a short question under long instructions, in a session that does not truncate; returns the error."""
    async with connect(f"ws://127.0.0.1:{server.port}/v1/realtime") as socket:
        item = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hi" if "instructions" in fields else LONG}]}
        for event in ({"type": "session.update", "session": {"type": "realtime", "truncation": "disabled"} | fields},
                      {"type": "conversation.item.create", "item": item}, {"type": "response.create"}):
            await socket.send(json.dumps(event))
        async for message in socket:
            event = json.loads(message)
            assert event["type"] != "response.done", event
            if event["type"] == "error":
                return event["error"]


def window_line(server):
    return re.search(r"window: (\d+) tokens and up to (\d+) pinned: (.*); (\d+) sessions? fits? at full length, in (\d+) slots",
                     server.log.read_text())


def test_window_defaults_to_the_model_context(start, tmp_path):
    server = start("--log-level", "info")
    line = window_line(server)
    assert line.groups() == (str(CONTEXT - 256), "256", f"the model's context of {CONTEXT}", "8", "8")
    status, models = server.get("/v1/models")
    assert status == 200 and json.loads(models)["data"][0]["ringside"]["memory_len"] == CONTEXT - 256
    server.stop()
    # One window of this model takes all memory.
    server = start("--log-level", "info", "--served-model-name", "tiny", model=tiny_model.make(tmp_path / "long.gguf", more={"llama.context_length": 1 << 31}))
    window, _, why, sessions, slots = re.findall(r"window: (\d+) .* up to (\d+) pinned: (.*); (\d+) session.*in (\d+) slots",
                                                 server.log.read_text())[-1]
    assert CONTEXT < int(window) < 1 << 31 and why == f"as memory allows, of the model's context of {1 << 31}"
    assert (sessions, slots) == ("1", "8")
    for _ in range(9):  # more conversations than slots, each far below a full window
        status, answer = post(server, "/v1/chat/completions", {"messages": [{"role": "user", "content": "Hello."}], "max_tokens": 4})
        assert status == 200, answer


def test_every_api_reports_a_full_window(start):
    server = start("--memory-len", 256)
    for path, body, words in REFUSALS:
        status, answer = post(server, path, body)
        assert status == 400, (path, answer)
        error = answer["error"]
        assert re.search(words, error if isinstance(error, str) else error["message"]), (path, answer)
        if words == OPENAI:
            assert error["code"] == "context_length_exceeded"
    status, answer = post(server, "/api/chat", {"messages": HISTORY, "stream": False, "options": {"num_predict": 4}})
    assert status == 200, answer  # this API slides the history, as Ollama does

    async def talk():
        async with Conversation(server.port) as talk:
            assert re.search(OPENAI, (await talk.refused(LONG))["error"]["message"])
        for fields in ({}, {"instructions": LONG}):
            error = await refused_by_realtime(server, fields)
            assert re.search(OPENAI, error["message"]) and error["code"] == "context_length_exceeded", error

    run(talk())


def test_repeating_answer_is_ended(start):
    loop = {"messages": [{"role": "user", "content": "Hello."}], "temperature": 0, "logit_bias": {"40": 100}}
    server = start("--memory-len", 900)
    _, answer = post(server, "/v1/chat/completions", loop)
    choice = answer["choices"][0]
    assert choice["finish_reason"] == "length" and choice["ringside"] == {"incomplete_reason": "repetition"}
    assert answer["usage"]["completion_tokens"] == 515
    _, answer = post(server, "/v1/chat/completions", loop | {"max_tokens": 600})
    assert answer["usage"]["completion_tokens"] == 600 and "ringside" not in answer["choices"][0]
    assert server.metrics()['ringside_request_success_total{finished_reason="repetition"}'] == 1
    server.stop()
    server = start("--memory-len", 900, "--no-repetition-guard")
    _, answer = post(server, "/v1/chat/completions", loop)
    assert answer["usage"]["total_tokens"] == 900 + 4 and "ringside" not in answer["choices"][0]
