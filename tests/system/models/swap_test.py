"""Several models in one server, with memory for one: every session keeps its model, its text and its cache.

    scripts/python -m pytest tests/system/models/swap_test.py
"""

import asyncio
import json
import os
import random
import subprocess

import pytest
import tiny_model
from conversation import answer_text
from server_process import PATIENCE_S, ROOT, run, wait_for
from wire import LOST, Http, Socket

NAMES = ("alpha", "bravo", "charlie")
SESSIONS, TURNS, KILLED_TURN = 50, 4, 2
ASK = {"temperature": 0, "max_output_tokens": 12, "ignore_eos": True}
ENDLESS = {"temperature": 0, "max_output_tokens": 1 << 24, "ignore_eos": True}
FLAGS = ("--memory-len", 4096, "--session-len", 1 << 25)
OTHER_TEMPLATE = tiny_model.TEMPLATE.replace("'<|im_end|>' + '\\n'", "'<|im_end|>'")


@pytest.fixture(scope="session")
def models(tmp_path_factory):
    """A folder with three models of one shape, so that nothing but their identity keeps their caches apart."""
    folder = tmp_path_factory.mktemp("models")
    for seed, name in enumerate(NAMES):
        more = {"tokenizer.chat_template": OTHER_TEMPLATE} if name == "charlie" else {}
        tiny_model.make(folder / f"{name}.gguf", seed=seed + 1, more=more, endless=True)
    return folder


@pytest.fixture
def serve(start, store):
    """Starts a server for a folder of models."""

    def serve(folder, *flags, stored=True, **options):
        return start("--models-dir", folder, *(("--store-path", store) if stored else ()), *FLAGS, *flags, model=None,
                     **options)

    return serve


def question(session, turn):
    return f"Question {turn} of session {session}: " + "why " * (1 + (session * 7 + turn) % 20)


class Session:
    """One conversation and everything that the client has read of it."""

    def __init__(self, number):
        self.number, self.model = number, NAMES[number % len(NAMES)]
        self.id, self.answers = None, []

    async def open(self, port):
        http = Http(port)
        status, made = await http.call("POST", "/v1/conversations", {})
        assert status == 200, made
        self.id = made["id"]
        http.close()

    async def ask(self, port):
        """Runs the next turn; the answer counts once its end was read."""
        socket = await Socket.open(port)
        try:
            events = await socket.ask(model=self.model, conversation=self.id,
                                      input=question(self.number, len(self.answers)), **ASK)
        finally:
            socket.abort()
        assert events[-1]["type"] == "response.incomplete", events[-1]
        response = events[-1]["response"]
        assert response["model"] == self.model
        self.answers.append((answer_text(response), response["ringside"]["tokens_computed"], response["ringside"]["source"]))


async def ask_all(sessions, port, at_once=12):
    """One turn of every session, in random order, several at a time."""
    places = asyncio.Semaphore(at_once)

    async def one(session):
        async with places:
            await session.ask(port)

    order = random.Random(len(sessions[0].answers)).sample(sessions, len(sessions))
    return await asyncio.gather(*(one(session) for session in order), return_exceptions=True)


def expected_answers(start, models, sessions):
    """What servers with one model each answer."""
    expected = {}
    for name in NAMES:
        server = start(*FLAGS, model=str(models / f"{name}.gguf"))

        async def main(port=server.port, name=name):
            own = [Session(session.number) for session in sessions if session.model == name]
            for session in own:
                await session.open(port)
                for _ in range(TURNS):
                    await session.ask(port)
                expected[session.number] = session.answers

        run(main())
        server.stop()
    return expected


async def repair(session, port):
    """After a kill: every acknowledged answer is there; an unfinished turn is taken back."""
    http, socket = Http(port), await Socket.open(port)
    items = await http.items(session.id)
    kept = []
    for turn, (text, *_) in enumerate(session.answers):
        kept += [("user", question(session.number, turn)), ("assistant", text)]
    assert items[: len(kept)] == kept
    if len(items) > len(kept):
        await socket.send({"type": "ringside:session.rewind", "session": session.id, "to": len(kept)})
        while (event := await socket.receive())["type"] != "ringside:session.rewound":
            assert event["type"] not in ("error", "ringside:session.failed"), event
    http.close()
    socket.abort()


def test_fifty_sessions_over_three_models_lose_nothing(start, serve, models):
    sessions = [Session(number) for number in range(SESSIONS)]
    expected = expected_answers(start, models, sessions)
    server = serve(models)

    async def before_the_kill(port):
        for session in sessions:
            await session.open(port)
        for _ in range(KILLED_TURN):
            failed = [error for error in await ask_all(sessions, port) if error is not None]
            assert not failed, failed[0]
        turns = asyncio.ensure_future(ask_all(sessions, port))
        while sum(len(session.answers) > KILLED_TURN for session in sessions) < SESSIONS // 3:
            await asyncio.sleep(0.001)
        server.kill()  # with models loaded, loading and unloading
        for error in await turns:
            assert error is None or isinstance(error, LOST), error

    run(before_the_kill(server.port))
    done_before = {session.number: len(session.answers) for session in sessions}
    server = serve(models)

    async def after_the_kill(port):
        await asyncio.gather(*(repair(session, port) for session in sessions))
        while behind := [session for session in sessions if len(session.answers) < TURNS]:
            failed = [error for error in await ask_all(behind, port) if error is not None]
            assert not failed, failed[0]

    run(after_the_kill(server.port))
    for session in sessions:
        assert [text for text, *_ in session.answers] == [text for text, *_ in expected[session.number]], session.number
        for turn, (_, computed, source) in enumerate(session.answers):
            if turn in (0, done_before[session.number]):
                continue  # nothing to reuse yet, or the kill took the cache
            # New tokens only, as in a server that never unloads the model.
            assert computed == expected[session.number][turn][1], (session.number, turn, source)
            assert source in ("slot", "host", "disk"), (session.number, turn, source)
    listed = {model["id"]: model["ringside"]["state"] for model in json.loads(server.get("/v1/models")[1])["data"]}
    assert sorted(listed) == sorted(NAMES) and sorted(listed.values()) == ["loaded", "unloaded", "unloaded"]
    server.stop()


def test_caches_survive_an_orderly_restart(serve, models):
    server = serve(models)
    sessions = [Session(number) for number in range(6)]

    async def turns(port):
        for session in sessions:
            if session.id is None:
                await session.open(port)
            await session.ask(port)

    run(turns(server.port))
    server.stop()
    server = serve(models)
    run(turns(server.port))
    assert {session.answers[1][2] for session in sessions} == {"disk"}


def test_two_models_asked_all_the_time_both_progress(serve, models):
    server = serve(models, stored=False)

    async def main():
        sessions = [Session(number) for number in (0, 1, 3, 4)]  # two of alpha, two of bravo
        for session in sessions:
            await session.open(server.port)

        async def several(session):
            for _ in range(8):
                await session.ask(server.port)

        await asyncio.gather(*(several(session) for session in sessions))
        return sessions

    assert all(len(session.answers) == 8 for session in run(main()))


def test_turn_that_waits_for_its_model_can_be_cancelled(serve, models):
    server = serve(models, stored=False)

    async def main():
        busy, waiting = await Socket.open(server.port), await Socket.open(server.port)
        await busy.send({"type": "response.create", "model": "alpha", "input": "Tell me.", **ENDLESS})
        while (await busy.receive())["type"] != "response.output_text.delta":
            pass
        await waiting.send({"type": "response.create", "model": "bravo", "input": "Tell me.", **ASK})
        created = await waiting.receive()
        assert created["type"] == "response.created"
        # alpha answers, so it cannot be unloaded.
        await waiting.send({"type": "response.cancel", "response_id": created["response"]["id"]})
        while (event := await waiting.receive())["type"] not in ("response.incomplete", "response.completed"):
            assert event["type"] not in ("error", "response.failed"), event
        assert event["response"]["status"] == "cancelled"
        await busy.send({"type": "response.cancel"})
        while (event := await busy.receive())["type"] != "response.incomplete":
            pass
        events = await waiting.ask(model="bravo", input="Tell me.", **ASK)
        assert events[-1]["type"] == "response.incomplete"

    run(main())


def test_load_failure_concerns_its_model_only(serve, models, tmp_path):
    folder = tmp_path / "copies"
    folder.mkdir()
    for name in NAMES[:2]:
        (folder / f"{name}.gguf").write_bytes((models / f"{name}.gguf").read_bytes())
    server = serve(folder)

    async def ask(name):
        http = Http(server.port)
        answer = await http.call("POST", "/v1/responses", {"model": name, "input": "Hi", **ASK})
        http.close()
        return answer

    for name in ("bravo", "alpha"):
        status, answer = run(ask(name))
        assert status == 200, answer
    whole = (folder / "bravo.gguf").read_bytes()
    (folder / "bravo.gguf").write_bytes(whole[: len(whole) // 2])
    status, answer = run(ask("bravo"))
    assert status == 503 and answer["error"]["code"] == "model_load_failed", answer
    assert str(folder) not in json.dumps(answer)
    assert run(ask("alpha"))[0] == 200
    assert server.get("/readyz")[0] == 200
    (entry,) = [model for model in json.loads(server.get("/v1/models")[1])["data"] if model["id"] == "bravo"]
    assert entry["ringside"]["state"] in ("failed", "unsupported") and entry["ringside"]["reason"], entry


def test_names_and_lists(serve, models, tmp_path):
    folder = tmp_path / "copies"
    (folder / "more").mkdir(parents=True)
    for name in ("alpha.gguf", "more/alpha.gguf", "bravo.gguf"):
        (folder / name).write_bytes((models / name.rsplit("/", 1)[-1]).read_bytes())
    (folder / "broken.gguf").write_bytes(b"GGUF nonsense")
    server = serve(folder)

    async def main():
        http = Http(server.port)

        async def refusal(model):
            status, answer = await http.call("POST", "/v1/chat/completions",
                                             {"model": model, "messages": [{"role": "user", "content": "Hi"}]})
            return status, answer["error"]["code"]

        _, listed = await http.call("GET", "/v1/models")
        states = {model["id"]: model["ringside"]["state"] for model in listed["data"]}
        assert states == {"alpha": "unloaded", "more/alpha": "unloaded", "bravo": "unloaded", "broken": "unsupported"}
        for path in ("../copies/alpha", str(folder / "alpha.gguf"), "more/../alpha", "nobody"):
            assert await refusal(path) == (404, "model_not_found")
        assert await refusal("broken") == (400, "model_unsupported")
        status, answer = await http.call("POST", "/api/chat", {
            "model": "Bravo:latest", "stream": False, "messages": [{"role": "user", "content": "Hi"}],
            "options": {"num_predict": 4}})
        assert status == 200 and answer["model"] == "bravo", answer
        _, running = await http.call("GET", "/api/ps")
        assert [model["name"] for model in running["models"]] == ["bravo:latest"]
        _, tags = await http.call("GET", "/api/tags")
        assert len(tags["models"]) == 4
        assert (await http.call("POST", "/api/show", {"model": "more/alpha"}))[0] == 200
        # A model that is gone: its conversations can be read, their turns are refused.
        _, made = await http.call("POST", "/v1/conversations", {"ringside": {"model": "bravo"}})
        assert made["ringside"]["model"] == "bravo"
        (folder / "bravo.gguf").unlink()
        status, answer = await http.call("POST", "/v1/responses", {"conversation": made["id"], "input": "Hi", **ASK})
        assert status == 404 and answer["error"]["code"] == "model_not_found", answer
        assert (await http.call("GET", f"/v1/conversations/{made['id']}"))[0] == 200

    run(main())


def test_memory_bounds_the_loaded_models(serve, models):
    # Each model takes about 5 MB with its caches: two fit.
    server = serve(models, "--models-max", 3, "--models-memory-mb", 12, "--kv-cache-mb", 5)

    async def main():
        for number in (0, 1, 2):
            session = Session(number)
            await session.open(server.port)
            await session.ask(server.port)

    run(main())
    states = {model["id"]: model["ringside"]["state"] for model in json.loads(server.get("/v1/models")[1])["data"]}
    assert states == {"alpha": "unloaded", "bravo": "loaded", "charlie": "loaded"}
    metrics = wait_for(lambda: server.metrics(), "metrics")
    assert metrics['ringside_model_loads_total{model="alpha"}'] == 1
    assert metrics['ringside_model_unloads_total{model="alpha"}'] == 1
    assert metrics['ringside_model_loaded{model="charlie"}'] == 1


def states(server):
    return {model["id"]: model["ringside"] for model in json.loads(server.get("/v1/models")[1])["data"]}


async def change(port, verb, name):
    """Status and error code, or state, of a load or an unload on request."""
    http = Http(port)
    status, answer = await http.call("POST", f"/models/{verb}", {"model": name})
    http.close()
    return status, answer["error"]["code"] if "error" in answer else answer["status"]["value"]


def test_load_and_unload_on_request_keep_the_conversations(serve, models):
    server = serve(models)
    session = Session(1)  # of bravo

    async def main():
        await session.open(server.port)
        assert await change(server.port, "unload", "bravo") == (200, "unloaded")  # nothing to do
        for _ in range(2):
            assert await change(server.port, "load", "Bravo") == (200, "loaded")
            assert states(server)["bravo"]["state"] == "loaded" and states(server)["bravo"]["memory_bytes"] > 0
        await session.ask(server.port)
        assert await change(server.port, "unload", "bravo") == (200, "unloaded")
        assert states(server)["bravo"]["state"] == "unloaded" and states(server)["bravo"]["memory_bytes"] == 0
        assert server.get("/readyz")[0] == 200
        await session.ask(server.port)
        assert session.answers[1][2] in ("host", "disk")  # no replay
        assert await change(server.port, "load", "alpha") == (200, "loaded")  # there is room for one
        assert {name: one["state"] for name, one in states(server).items()} == {
            "alpha": "loaded", "bravo": "unloaded", "charlie": "unloaded"}
        assert (await change(server.port, "load", "../alpha"), await change(server.port, "unload", "nobody")) == (
            (404, "model_not_found"),) * 2

    run(main())
    metrics = server.metrics()
    assert metrics['ringside_model_loads_total{model="bravo"}'] == 2
    assert metrics['ringside_model_unloads_total{model="bravo"}'] == 2
    server.stop()


def test_model_with_turns_is_not_unloaded_on_request(serve, models):
    server = serve(models, stored=False)

    async def main():
        busy = await Socket.open(server.port)
        await busy.send({"type": "response.create", "model": "alpha", "input": "Tell me.", **ENDLESS})
        while (await busy.receive())["type"] != "response.output_text.delta":
            pass
        assert await change(server.port, "unload", "alpha") == (409, "model_in_use")
        # A load waits until there is room; the turn of the other model goes on until its end.
        load = asyncio.ensure_future(change(server.port, "load", "bravo"))
        while await change(server.port, "unload", "bravo") != (409, "model_in_use"):
            pass  # it has not arrived
        while (await busy.receive())["type"] != "response.output_text.delta":
            pass
        assert not load.done() and states(server)["bravo"]["state"] == "unloaded"
        await busy.send({"type": "response.cancel"})
        while (await busy.receive())["type"] != "response.incomplete":
            pass
        assert await load == (200, "loaded")

        async def unload():
            while (answer := await change(server.port, "unload", "bravo")) == (409, "model_in_use"):
                await asyncio.sleep(0.01)
            return answer

        assert await unload() == (200, "unloaded")

    run(main())


def test_loads_and_unloads_at_random_lose_no_turn(start, serve, models):
    """Operators and clients disagree all the time: each turn gets the answer of an undisturbed server."""
    sessions = [Session(number) for number in range(6)]
    expected = expected_answers(start, models, sessions)
    server = serve(models, "--models-max", 2)
    order = random.Random(52)

    async def main():
        for session in sessions:
            await session.open(server.port)

        async def several(session):
            for _ in range(TURNS):
                await session.ask(server.port)

        async def disturb():
            while True:
                status, told = await change(server.port, order.choice(("load", "unload")), order.choice(NAMES))
                assert status == 200 or (status, told) == (409, "model_in_use"), told

        operators = [asyncio.ensure_future(disturb()) for _ in range(2)]
        await asyncio.gather(*(several(session) for session in sessions))
        for operator in operators:
            assert not operator.done(), operator.exception()
            operator.cancel()

    run(main())
    for session in sessions:
        assert [text for text, *_ in session.answers] == [text for text, *_ in expected[session.number]], session.number
    server.stop()


def test_requested_load_that_fails_names_the_reason(serve, models, tmp_path):
    folder = tmp_path / "copies"
    folder.mkdir()
    for name in NAMES[:2]:
        (folder / f"{name}.gguf").write_bytes((models / f"{name}.gguf").read_bytes())
    (folder / "broken.gguf").write_bytes(b"GGUF nonsense")
    server = serve(folder, stored=False)
    whole = (folder / "bravo.gguf").read_bytes()

    async def main():
        assert await change(server.port, "load", "bravo") == (200, "loaded")
        assert await change(server.port, "unload", "bravo") == (200, "unloaded")
        (folder / "bravo.gguf").write_bytes(whole[: len(whole) // 2])
        status, code = await change(server.port, "load", "bravo")
        assert status in (400, 503) and code in ("model_unsupported", "model_load_failed")
        assert await change(server.port, "load", "broken") == (400, "model_unsupported")
        assert await change(server.port, "load", "alpha") == (200, "loaded")
        (folder / "alpha.gguf").unlink()
        assert await change(server.port, "load", "alpha") == (404, "model_not_found")
        assert await change(server.port, "unload", "alpha") == (200, "unloaded")  # its memory is freed
        (folder / "bravo.gguf").write_bytes(whole)
        # The folder is read again after a while.
        while (answer := await change(server.port, "load", "bravo")) == (400, "model_unsupported"):
            await asyncio.sleep(0.05)
        assert answer == (200, "loaded")  # without the pause after a failure

    run(main())


def test_ollama_and_lm_studio_see_the_states(serve, models):
    server = serve(models, stored=False)

    async def main():
        http = Http(server.port)
        status, answer = await http.call("POST", "/api/generate", {"model": "bravo"})
        assert (status, answer["done_reason"]) == (200, "load"), answer
        _, running = await http.call("GET", "/api/ps")
        assert [model["name"] for model in running["models"]] == ["bravo:latest"]
        _, listed = await http.call("GET", "/api/v0/models")
        assert {model["id"]: model["state"] for model in listed["data"]} == {
            "alpha": "not-loaded", "bravo": "loaded", "charlie": "not-loaded"}
        status, answer = await http.call("POST", "/api/chat", {"model": "bravo", "keep_alive": 0})
        assert (status, answer["done_reason"]) == (200, "unload"), answer
        _, running = await http.call("GET", "/api/ps")
        assert running["models"] == []
        assert (await http.call("GET", "/models"))[1] == (await http.call("GET", "/v1/models"))[1]

    run(main())


def test_commands_list_load_and_unload(serve, models):
    server = serve(models, stored=False)
    client = os.environ.get("RINGSIDE_CLIENT") or str(ROOT / "build/cpu/bin/ringside")

    def ringside(*arguments):
        done = subprocess.run([client, *arguments, "--url", f"http://127.0.0.1:{server.port}"], capture_output=True,
                              text=True, timeout=PATIENCE_S)
        return done.returncode, done.stdout + done.stderr

    assert ringside("load", "bravo") == (0, "bravo is loaded.\n")
    code, table = ringside("models", "--server")
    rows = {row.split()[0]: row.split()[1] for row in table.splitlines()[1:]}
    assert code == 0 and rows == {"alpha": "unloaded", "bravo": "loaded", "charlie": "unloaded"}, table
    assert ringside("unload", "bravo") == (0, "bravo is unloaded.\n")
    code, said = ringside("load", "delta")
    assert code == 1 and "The model 'delta' does not exist here" in said
