"""Sessions of coding agents: the whole history in every request, a header in it that changes each time, tool results of
many lengths, and short side requests. Each request costs only its new tokens and the previous answer.

    scripts/python -m pytest tests/system/turns/agents_test.py
"""

import json
import random
import urllib.request

import tiny_model
from server_process import PATIENCE_S

TURNS = 40
INSTRUCTIONS = "You are a coding agent. " + "Be careful with files. " * 60
TOOLS = [{"name": "run", "description": "Runs a command.", "input_schema": {
    "type": "object", "properties": {"command": {"enum": ["ls", "cat a.txt", "make"]}}, "required": ["command"], "additionalProperties": False}}]


def post(server, path, body, headers=None):
    request = urllib.request.Request(f"http://127.0.0.1:{server.port}{path}", json.dumps(body).encode(),
                                     {"Content-Type": "application/json"} | (headers or {}))
    with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
        return json.load(answer)


def system(number):
    """As Claude Code sends it: the hash in the first block changes with every request."""
    header = f"x-anthropic-billing-header: cc_version=2.1.332.{number:03x}; cc_entrypoint=cli; cch={number * 7919 % 0xfffff:05x};"
    return [{"type": "text", "text": header}, {"type": "text", "text": INSTRUCTIONS, "cache_control": {"type": "ephemeral"}}]


class Agent:
    """Calls a tool in every turn and sends back its result."""

    def __init__(self, server, user="user_1_session_1"):
        self.server, self.user, self.requests, self.messages = server, user, 0, []

    def turn(self, content):
        """Runs a turn, appends the answer to the history, and returns its usage."""
        self.requests += 1
        self.messages.append({"role": "user", "content": content})
        answer = post(self.server, "/v1/messages?beta=true", {
            "model": "tiny", "max_tokens": 200, "system": system(self.requests), "tools": TOOLS, "tool_choice": {"type": "any", "disable_parallel_tool_use": True},
            "messages": self.messages, "metadata": {"user_id": self.user}})
        assert answer["stop_reason"] == "tool_use", answer
        self.messages.append({"role": "assistant", "content": answer["content"]})
        return answer["usage"]

    def result(self, text):
        call = next(block for block in self.messages[-1]["content"] if block["type"] == "tool_use")
        return self.turn([{"type": "tool_result", "tool_use_id": call["id"], "content": text}])


def start_large(start, tmp_path, *flags):
    return start("--served-model-name", "tiny", *flags, model=tiny_model.make(tmp_path / "large.gguf", more={"llama.context_length": 1 << 17}))


def words(count, seed):
    """About `count` tokens: most tokens of the tiny model are bytes."""
    source = random.Random(seed)
    return "".join(source.choice("abcdefghij klmnop\n") for _ in range(count))


def total(usage):
    return usage["input_tokens"] + usage["cache_read_input_tokens"]


def test_forty_turns_compute_only_new_tokens(start, tmp_path):
    agent = Agent(start_large(start, tmp_path, "--slots", 2))
    lengths = random.Random(1)
    last = agent.turn("Fix the build, please.")
    for turn in range(1, TURNS):
        usage = agent.result(words(lengths.randint(200, 3000), turn))
        # `new` includes the previous answer.
        new = total(usage) - total(last)
        assert usage["input_tokens"] <= 1.05 * new, (turn, usage, last)
        last = usage
    assert total(last) > 40_000


def test_changed_hash_in_the_header_reuses_the_cache(start, tmp_path):
    server = start_large(start, tmp_path)
    agent = Agent(server)
    agent.turn("Fix the build, please.")
    usage = agent.result(words(300, 0))
    assert usage["cache_read_input_tokens"] > 0.9 * (total(usage) - 300)
    body = {"model": "tiny", "max_tokens": 4, "messages": [{"role": "user", "content": "Hello."}]}
    counts = [post(server, "/v1/messages/count_tokens", body | {"system": text})["input_tokens"]
              for text in (system(1), system(2), INSTRUCTIONS)]
    assert counts[0] == counts[1] == counts[2], "the header is no part of the prompt"
    # Chat completions, as proxies send them.
    chat = [post(server, "/v1/chat/completions", {"messages": [{"role": "system", "content": [
        {"type": "text", "text": block["text"]} for block in system(number)]}, {"role": "user", "content": "Hello."}], "max_tokens": 4})
        for number in (3, 4)]
    usage = chat[1]["usage"]
    assert usage["prompt_tokens_details"]["cached_tokens"] >= usage["prompt_tokens"] - 1


def ask_titles(server, count, seed):
    """Distinct single requests of about 53 tokens."""
    for number in range(count):
        post(server, "/v1/chat/completions", {"messages": [{"role": "user", "content": f"{seed} {number} " + words(24, 1000 * seed + number)}],
                                              "max_tokens": 1})


def test_side_requests_do_not_evict_a_conversation(start, tmp_path):
    # The last configuration has host memory for the conversation (256 bytes per token) and for few of the others.
    for flags in (("--slots", 2), ("--slots", 1), ("--slots", 1, "--host-cache-mb", 3)):
        server = start_large(start, tmp_path, *flags)
        agent = Agent(server)
        last = agent.turn("Fix the build, please.")
        for turn in range(1, 6):
            ask_titles(server, 120, turn)
            usage = agent.result(words(1000, turn))
            assert usage["input_tokens"] <= total(usage) - total(last) + 1, (flags, turn, usage, last)
            last = usage
        server.stop()


def test_more_side_requests_than_kept_histories(start, tmp_path):
    server = start_large(start, tmp_path, "--slots", 2)
    agent = Agent(server)
    agent.turn("Fix the build, please.")
    last = agent.result(words(1000, 0))
    ask_titles(server, 1100, 7)
    usage = agent.result(words(100, 1))
    assert usage["input_tokens"] <= total(usage) - total(last) + 1, usage
