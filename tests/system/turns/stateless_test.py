"""Clients that resend the whole history pay only for new tokens, as with a conversation; owners share nothing, and
nothing is written to disk.

    scripts/python -m pytest tests/system/turns/stateless_test.py
"""

import json
import re
import socket
import time
import urllib.request

from conversation import Conversation, answer_text
from server_process import PATIENCE_S, run

# Long answers without an end of turn: every turn has tokens to compute.
GREEDY = {"temperature": 0, "ignore_eos": True}
QUESTION = "Tell me more of it, and of what came before it, number {}."


def post(server, path, body, key=None):
    headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {key}"} if key else {})
    request = urllib.request.Request(f"http://127.0.0.1:{server.port}{path}", json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
        return json.load(answer)


def metric(server, name):
    with urllib.request.urlopen(f"http://127.0.0.1:{server.port}/metrics", timeout=PATIENCE_S) as answer:
        return float(re.search(rf"^{re.escape(name)} (\S+)$", answer.read().decode(), re.MULTILINE)[1])


def until(condition):
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, "it never came"
        time.sleep(0.02)


def chat(server, messages, key=None, **fields):
    return post(server, "/v1/chat/completions", {"messages": messages, "max_tokens": 16, **GREEDY, **fields}, key)


def user(text):
    return {"role": "user", "content": text}


def cached(answer):
    return answer["usage"]["prompt_tokens_details"]["cached_tokens"]


def test_ten_stateless_turns_cost_as_much_as_a_conversation(start):
    server = start("--memory-len", 4096, "--slots", 2)
    messages, computed, texts = [], [], []
    for turn in range(10):
        messages.append(user(QUESTION.format(turn)))
        answer = chat(server, messages)
        messages.append(answer["choices"][0]["message"])
        texts.append(messages[-1]["content"])
        computed.append(answer["usage"]["prompt_tokens"] - cached(answer))

    other = start("--memory-len", 4096, "--slots", 2)  # has nothing to share

    async def converse():
        reports = []
        async with Conversation(other.port) as talk:
            for turn in range(10):
                reports.append(await talk.ask(QUESTION.format(turn), max_output_tokens=16, **GREEDY))
        return reports

    responses = run(converse())
    assert texts == [answer_text(response) for response in responses]
    for mine, response in zip(computed, responses):
        theirs = response["ringside"]["tokens_computed"]
        assert abs(mine - theirs) <= 0.05 * theirs, (computed, theirs)


def test_choices_compute_their_prompt_once(start):
    server = start("--slots", 2)
    prompt = "A long story. " * 40
    before = metric(server, "ringside_prompt_tokens_prefilled_total")
    answer = chat(server, [user(prompt)], n=4, temperature=1, seed=3)
    assert len({choice["message"]["content"] for choice in answer["choices"]}) > 1
    prefilled = metric(server, "ringside_prompt_tokens_prefilled_total") - before
    # The others compute one last token each, or a few if they forked before the end of a step.
    assert answer["usage"]["prompt_tokens"] <= prefilled <= 1.25 * answer["usage"]["prompt_tokens"], prefilled


def test_choices_share_the_prompt_and_equal_single_answers(start):
    server = start("--slots", 8)
    prompt = [user("A long story. " * 40)]
    answer = chat(server, prompt, n=4, temperature=1, seed=3)
    choices = [choice["message"] for choice in answer["choices"]]
    assert metric(server, 'ringside_cache_spill_bytes_total{to="host"}') == 0  # no fork needed a copy
    other = start("--slots", 8)
    alone = [chat(other, prompt, n=1, temperature=1, seed=3 + i)["choices"][0]["message"] for i in range(4)]
    assert choices == alone
    # The history is found whichever choice the client continues.
    for choice in choices:
        onwards = chat(server, [*prompt, choice, user("And then?")])
        assert cached(onwards) >= 0.9 * answer["usage"]["prompt_tokens"]
        assert onwards["choices"] == chat(other, [*prompt, choice, user("And then?")])["choices"]


def test_branched_history_is_computed_from_the_branch(start):
    server = start("--slots", 2)
    begin = [user("A long story. " * 40)]
    answer = chat(server, begin)
    begin.append(answer["choices"][0]["message"])
    first = chat(server, begin + [user("What now?")])
    second = chat(server, begin + [user("And then?")])
    for branch in (first, second):
        assert cached(branch) > 0.9 * answer["usage"]["prompt_tokens"]
    again = chat(server, begin + [user("What now?")])
    assert again["choices"] == first["choices"]


def test_owners_are_isolated(start):
    server = start("--api-key", "alpha-key", "--api-key", "beta-key")
    messages = [user("A long story. " * 40)]
    assert cached(chat(server, messages, "alpha-key")) == 0
    assert cached(chat(server, messages, "alpha-key")) > 100
    assert cached(chat(server, messages, "beta-key")) == 0
    prompt = {"prompt": "A long story. " * 40, "max_tokens": 4}
    for key, found in (("alpha-key", False), ("alpha-key", True), ("beta-key", False)):
        assert (cached(post(server, "/v1/completions", prompt, key)) > 0) == found


def test_unstored_data_is_not_on_disk(start, store):
    flags = ("--store-path", store, "--slots", 1, "--session-idle-disk", 0, "--session-idle-host", 0)
    server = start(*flags)
    secret, kept = "The word is xylophone.", "The word is marimba."
    answer = chat(server, [user(secret)])
    chat(server, [user(kept)], store=True)
    assert cached(chat(server, [user(secret), answer["choices"][0]["message"], user("And?")])) > 0
    server.terminate()
    assert server.wait() == 0, server.tail()
    stored = b"".join(path.read_bytes() for path in store.rglob("*") if path.is_file())
    assert b"marimba" in stored and b"xylophone" not in stored and b"ram_" not in stored


def test_client_disconnect_ends_its_turn(start):
    server = start()
    body = json.dumps({"messages": [user("Hello.")], "max_tokens": 1 << 20, "stream": True, **GREEDY})
    head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {len(body)}\r\n\r\n"
    for stream in (True, False):
        with socket.create_connection(("127.0.0.1", server.port)) as client:
            sent = (head + body) if stream else (head + body).replace('"stream": true,', '"stream":false,')
            client.sendall(sent.encode())
            until(lambda: metric(server, "ringside_num_requests_running") == 1)
        until(lambda: metric(server, "ringside_num_requests_running") == 0)
