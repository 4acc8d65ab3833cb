"""LoRA adapters and soft prompts: requested as models, many at once, by conversations that keep theirs, and across
restarts that keep, change or remove an adapter.

    scripts/python -m pytest tests/system/turns/adapters_test.py
"""

import concurrent.futures
import json
import urllib.error
import urllib.request

import pytest
import tiny_model
import websockets
from conversation import Conversation, answer_text, reused
from server_process import PATIENCE_S, run

GREEDY = {"temperature": 0, "ignore_eos": True}
SHORT = {"max_output_tokens": 12, **GREEDY}
UNREADABLE, BAD_SETTINGS = 1, 78


@pytest.fixture
def adapters(tmp_path):
    """Makes `count` adapters; returns the flags that serve them as a1, a2 ..."""

    def adapters(count, first_seed=1):
        made = [tiny_model.make_adapter(tmp_path / f"a{i}.gguf", seed=first_seed + i) for i in range(1, count + 1)]
        return [flag for i, path in enumerate(made, 1) for flag in ("--lora", f"a{i}={path}")]

    return adapters


def post(server, path, body):
    request = urllib.request.Request(f"http://127.0.0.1:{server.port}{path}", json.dumps(body).encode(),
                                     {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def chat(server, model, text="Tell me more of it."):
    messages = [{"role": "user", "content": text}]
    status, answer = post(server, "/v1/chat/completions", {"model": model, "messages": messages, "max_tokens": 12, **GREEDY})
    assert status == 200 and answer["model"] == model, answer
    return answer["choices"][0]["message"]["content"]


def test_adapters_are_listed_as_models(start, adapters):
    server = start("--served-model-name", "tiny", *adapters(2))
    listed = json.loads(server.get("/v1/models")[1])
    assert [(model["id"], model["parent"]) for model in listed["data"]] == [("tiny", None), ("a1", "tiny"), ("a2", "tiny")]
    assert listed["last_id"] == "a2"
    assert json.loads(server.get("/v1/models/a2")[1])["parent"] == "tiny"
    assert server.get("/v1/models/a3")[0] == 404
    names = [model["name"] for model in json.loads(server.get("/api/tags")[1])["models"]]
    assert names == ["tiny:latest", "a1:latest", "a2:latest"]
    assert len({chat(server, model) for model in ("tiny", "a1", "a2")}) == 3
    bodies = {
        "/v1/chat/completions": {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 4},
        "/v1/completions": {"prompt": "Hi", "max_tokens": 4},
        "/v1/messages": {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 4},
        "/api/chat": {"messages": [{"role": "user", "content": "Hi"}], "stream": False, "options": {"num_predict": 4}},
        "/v1/responses": {"input": "Hi", "max_output_tokens": 4},
    }
    for path, body in bodies.items():
        status, answer = post(server, path, {**body, "model": "a2"})
        assert (status, answer["model"]) == (200, "a2"), path
        status, refused = post(server, path, {**body, "model": "a3"})
        assert status == 404, path
        if path.startswith("/v1/") and path != "/v1/messages":
            assert refused["error"]["code"] == "model_not_found" and "'a1', 'a2'" in refused["error"]["message"]


def test_sixteen_batched_adapters_answer_as_alone(start, adapters):
    server = start("--served-model-name", "tiny", "--slots", 20, *adapters(16))
    models = ["tiny", *(f"a{i}" for i in range(1, 17)), "a3"]
    alone = {model: chat(server, model) for model in models}
    assert len(set(alone.values())) > 12
    with concurrent.futures.ThreadPoolExecutor(len(models)) as pool:
        together = list(pool.map(lambda model: chat(server, model), models))
    assert together == [alone[model] for model in models]


def test_a_conversation_keeps_its_adapter(start, store, adapters):
    flags = ("--served-model-name", "tiny", "--store-path", store)
    server = start(*flags, *adapters(2))

    async def begin():
        async with Conversation(server.port) as talk:
            status, made = await talk.http.call("POST", "/v1/conversations", {"ringside": {"adapter": "a1"}})
            assert status == 200 and made["ringside"]["adapter"] == "a1"
            status, refused = await talk.http.call("POST", "/v1/conversations", {"ringside": {"adapter": "a9"}})
            assert status == 404 and refused["error"]["code"] == "model_not_found"
            assert refused["error"]["param"] == "ringside.adapter"
        async with Conversation(server.port, made["id"]) as talk:
            first = await talk.ask("Hello there, you.", **SHORT)
            second = await talk.ask("And then?", **SHORT)
            assert first["model"] == second["model"] == "a1" and reused(second)[0] == "slot"
            both = {"model": "a2", "ringside": {"adapter": "a1"}}
            assert (await talk.refused("Which?", **both))["error"]["param"] == "ringside.adapter"
        async with Conversation(server.port) as other:  # a turn names its own adapter
            named = await other.ask("Hello there, you.", model="a1", **SHORT)
            assert answer_text(named) == answer_text(first)
            plain = await other.ask("Hello there, you.", model="tiny", **SHORT)
            assert plain["model"] == "tiny" and reused(plain)[:2] == ("recomputed", 0)
        return made["id"]

    async def third(server, **fields):
        async with Conversation(server.port, conversation) as talk:
            return await talk.ask("What now?", **SHORT, **fields)

    conversation = run(begin())
    server.stop()
    # Same adapter: the stored cache is reused.
    server = start(*flags, *adapters(2))
    answer = run(third(server))
    assert answer["model"] == "a1" and answer["ringside"]["source"] == "disk"
    server.stop()
    # A different file under the same name: the stored cache is invalid.
    server = start(*flags, *adapters(2, first_seed=50))
    answer = run(third(server))
    assert answer["model"] == "a1" and reused(answer)[:2] == ("recomputed", 0)
    server.stop()
    # No adapter of that name.
    server = start(*flags)

    async def gone():
        async with Conversation(server.port, conversation) as talk:
            said = await talk.items()
            refused = await talk.refused("Still there?", **SHORT)
            assert refused["status"] == 404 and refused["error"]["code"] == "model_not_found"
            assert "no adapter 'a1'" in refused["error"]["message"]
            assert await talk.items() == said
            answer = await talk.ask("Still there?", model="tiny", **SHORT)
            assert answer["model"] == "tiny" and reused(answer)[:2] == ("recomputed", 0)
            assert (await talk.ask("And now?", **SHORT))["model"] == "tiny"

    run(gone())
    server.stop()


def test_soft_prompts_are_listed_as_models(start, store, tmp_path, adapters):
    table = tiny_model.make_soft_prompt(tmp_path / "tone.safetensors")
    flags = ("--served-model-name", "tiny", "--store-path", store, *adapters(1), "--soft-prompt", f"tone={table}")
    server = start(*flags)
    listed = json.loads(server.get("/v1/models")[1])["data"]
    assert [(model["id"], model["parent"]) for model in listed] == [("tiny", None), ("a1", "tiny"), ("tone", "tiny")]
    said = {model: chat(server, model) for model in ("tiny", "a1", "tone")}
    assert len(set(said.values())) == 3
    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        together = list(pool.map(lambda model: chat(server, model), [*said, *said]))
    assert together == [*said.values(), *said.values()]

    async def turns(port, texts, id=None):
        async with Conversation(port, id) as talk:
            return [await talk.ask(text, model="tone", **SHORT) for text in texts], talk.id

    (first, second), id = run(turns(server.port, ["Hello there, you.", "And then?"]))
    (whole, _), _ = run(turns(server.port, ["Hello there, you.", "Another."]))
    assert answer_text(whole) == answer_text(first) and first["usage"]["input_tokens"] == whole["usage"]["input_tokens"]
    server.terminate()
    server.wait()

    def third(*flags):
        server = start(*flags)
        (answer,), _ = run(turns(server.port, ["At last?"], id))
        server.kill()
        return reused(answer)[0], answer_text(answer)

    assert third(*flags)[0] == "disk"
    # Another table under the same name is a different prompt.
    tiny_model.make_soft_prompt(table, seed=2)
    assert third(*flags)[0] == "recomputed"


def test_unusable_soft_prompts_are_refused_by_name(start, tmp_path, model):
    def refusal(*flags, code=BAD_SETTINGS):
        server = start("--served-model-name", "tiny", *flags, ready=False)
        assert server.wait() == code, server.tail()
        return server.tail().strip().splitlines()[-1]

    table = tiny_model.make_soft_prompt(tmp_path / "tone.safetensors")
    assert "--soft-prompt: " in (said := refusal("--soft-prompt", f"a b={table}")) and "NAME=PATH" in said
    assert "'tiny' is the model's own name" in refusal("--soft-prompt", f"tiny={table}")
    assert "adapter 't'" in refusal("--soft-prompt", f"t={model}", code=UNREADABLE)


def test_realtime_sessions_select_an_adapter(start, adapters):
    server = start("--served-model-name", "tiny", *adapters(1))
    url = f"ws://127.0.0.1:{server.port}/v1/realtime?model="

    async def main():
        with pytest.raises(websockets.InvalidStatus) as refused:
            await websockets.connect(url + "a9", proxy=None)
        assert refused.value.response.status_code == 404
        async with websockets.connect(url + "a1", proxy=None) as socket:

            async def until(kind):
                while (event := json.loads(await socket.recv()))["type"] != kind:
                    assert event["type"] != "error", event
                return event

            async def adapter_after(*events):
                said = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hi"}]}
                answer = {"type": "response.create", "response": {"max_output_tokens": 4}}
                for event in (*events, {"type": "conversation.item.create", "item": said}, answer):
                    await socket.send(json.dumps(event))
                await until("response.done")
                return json.loads(server.get(f"/v1/conversations/{conversation}")[1])["ringside"]["adapter"]

            session = (await until("session.created"))["session"]
            conversation = session["ringside"]["conversation"]
            assert session["model"] == "a1"
            assert await adapter_after() == "a1"
            assert await adapter_after({"type": "session.update", "session": {"type": "realtime", "model": "tiny"}}) is None
            assert await adapter_after() is None

    run(main())


def test_settings_file_lists_adapters(start, adapters, tmp_path):
    paths = adapters(2)[1::2]
    settings = tmp_path / "settings.yaml"
    settings.write_text("served-model-name: tiny\nlora:\n" + "".join(f"  - {path}\n" for path in paths))
    server = start("--config", settings)
    assert len({chat(server, model) for model in ("tiny", "a1", "a2")}) == 3


def test_unusable_adapters_are_refused_by_name(start, adapters, tmp_path, model):
    def refusal(*flags, code=BAD_SETTINGS):
        server = start("--served-model-name", "tiny", *flags, ready=False)
        assert server.wait() == code, server.tail()
        return server.tail().strip().splitlines()[-1]

    sound = adapters(1)[1].partition("=")[2]
    for odd in (sound, f"={sound}", "a1=", f"a/b={sound}", f"a b={sound}", f"\u00e4={sound}", f"{'x' * 65}={sound}"):
        assert "--lora: " in (said := refusal("--lora", odd)) and "NAME=PATH" in said
    assert "two adapters have the name 'a1'" in refusal("--lora", f"a1={sound}", "--lora", f"a1={sound}")
    assert "'tiny' is the model's own name" in refusal("--lora", f"tiny={sound}")
    assert "adapter 'a1'" in (said := refusal("--lora", f"a1={tmp_path / 'nothing'}", code=UNREADABLE)) and "nothing" in said
    assert "general.type is ''" in refusal("--lora", f"a1={model}")
    (tmp_path / "cut.gguf").write_bytes(open(sound, "rb").read()[:-100])
    assert "adapter 'a1'" in refusal("--lora", f"a1={tmp_path / 'cut.gguf'}", code=UNREADABLE)
