"""Any server continues any conversation: idle ones are handed over, running ones refused with Retry-After, and those of a
dead server are taken over once its lease has ended.

    scripts/python -m pytest tests/cluster/sharing_test.py        (as root)
"""

import asyncio
import json
import urllib.error
import urllib.request

import pytest
from cluster import FENCED, HAPROXY, PORT, Cluster
from server_process import run, wait_for
from wire import TERMINAL, Http, Socket, agree, text_of

pytestmark = pytest.mark.skipif(HAPROXY is None, reason="haproxy is not installed")
SHORT = {"max_output_tokens": 6, "temperature": 0}
ENDLESS = {"max_output_tokens": 1 << 18, "ignore_eos": True}
NEVER_S = 3600  # a lease that does not end during the test


@pytest.fixture
def start_cluster(machines, database, model, tmp_path):
    """Starts the cluster with this lease and durability. `folders`: each server also has a --store-path."""
    started = []

    def start(lease_s, durability="turn", folders=False):
        def flags(name, folder):
            shared = ["--store-url", database, "--server-name", name, "--lease-s", lease_s, "--durability", durability, "--slots", 8]
            return shared + (["--store-path", folder / "store"] if folders else [])

        started.append(Cluster(tmp_path, machines[2:], model, flags).__enter__())
        return started[-1]

    yield start
    for cluster in started:
        cluster.stop()


def post(server, conversation, text):
    """Returns status, headers and body of a turn at one server."""
    request = urllib.request.Request(f"http://{server.address}:{PORT}/v1/responses", headers={"Content-Type": "application/json"},
                                     data=json.dumps({"conversation": conversation, "input": text, **SHORT}).encode())
    try:
        with urllib.request.urlopen(request, timeout=120) as answer:
            return answer.status, answer.headers, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        return error.code, error.headers, json.loads(error.read())


async def create(server):
    http = Http(PORT, server.address)
    status, made = await http.call("POST", "/v1/conversations", {"metadata": {"title": "shared"}})
    assert status == 200, made
    http.close()
    return made["id"]


async def begin(server, conversation, text):
    """Starts an endless answer; returns its socket, its events so far, and the text of its deltas."""
    socket = await Socket.open(PORT, server.address)
    await socket.send({"type": "response.create", "conversation": conversation, "input": text, **ENDLESS})
    events = []
    while sum(event["type"] == "response.output_text.delta" for event in events) < 20:
        events.append(await socket.receive())
        assert events[-1]["type"] not in TERMINAL, events[-1]
    return socket, events, "".join(event.get("delta", "") for event in events)


async def until_answered(server, conversation, text):
    """Repeats a turn while the conversation is owned by a dead server."""
    while True:
        status, headers, answer = await asyncio.to_thread(post, server, conversation, text)
        if status == 200:
            return answer
        assert status == 409 and answer["error"]["code"] == "conversation_locked" and int(headers["Retry-After"]) >= 0, answer
        await asyncio.sleep(0.1)


async def items(server, conversation):
    http = Http(PORT, server.address)
    try:
        return await http.items(conversation)
    finally:
        http.close()


def test_idle_conversations_move_between_servers(start_cluster):
    cluster = start_cluster(NEVER_S)
    servers = list(cluster)

    async def talk():
        id, expected, chains = await create(servers[0]), [], []
        for number in range(7):
            server = servers[number % len(servers)]
            status, _, answer = await asyncio.to_thread(post, server, id, f"{number}?")
            assert status == 200, answer
            expected += [("user", f"{number}?"), ("assistant", text_of(answer))]
            chains.append(answer["ringside"]["seq"])
            assert [await items(each, id) for each in servers] == [expected] * len(servers)
        assert chains == sorted(set(chains))

    run(talk())


def test_every_server_lists_and_reads_everything(start_cluster):
    cluster = start_cluster(NEVER_S)

    async def talk():
        made = [await create(server) for server in cluster for _ in range(4)]
        for server in cluster:
            http = Http(PORT, server.address)
            status, page = await http.call("GET", "/v1/conversations?limit=100")
            assert status == 200 and {entry["id"] for entry in page["data"]} == set(made)
            for id in made:
                status, found = await http.call("GET", f"/v1/conversations/{id}")
                assert status == 200 and found["metadata"] == {"title": "shared"}, found
            http.close()

    run(talk())


def test_running_conversation_is_refused_elsewhere(start_cluster):
    owner, other, _ = start_cluster(NEVER_S)

    async def talk():
        id = await create(owner)
        socket, _, _ = await begin(owner, id, "Go on.")
        status, headers, answer = await asyncio.to_thread(post, other, id, "Me too.")
        assert status == 409 and answer["error"]["code"] == "conversation_locked", answer
        assert int(headers["Retry-After"]) >= 1
        await socket.send({"type": "response.cancel"})
        while (await socket.receive())["type"] not in TERMINAL:
            pass
        assert (await until_answered(other, id, "Me too."))["status"] in ("completed", "incomplete")
        await socket.close()

    run(talk())


@pytest.mark.parametrize("durability", ("turn", "token"))
def test_answer_of_a_dead_server_is_closed_as_interrupted(start_cluster, durability):
    owner, other, third = start_cluster(2, durability)

    async def talk():
        id = await create(owner)
        _, events, received = await begin(owner, id, "Go on.")
        response = events[0]["response"]["id"]
        owner.kill()
        answer = await until_answered(other, id, "And now?")
        found = await items(third, id)
        assert found[0] == ("user", "Go on.") and found[-2:] == [("user", "And now?"), ("assistant", text_of(answer))], found
        cut = found[1][1] if len(found) == 4 else ""
        assert agree(cut, received, durability), (cut, received)
        http = Http(PORT, third.address)
        status, stored = await http.call("GET", f"/v1/responses/{response}")
        http.close()
        assert status == 200 and stored["status"] == "incomplete" and stored["incomplete_details"] == {"reason": "interrupted"}, stored
        assert text_of(stored) == cut

    run(talk())


def test_text_of_running_answers_survives_their_process(start_cluster):
    """`kill -9`, and a restart that need not wait for its lease: no text that a client received is missing anywhere."""
    owner, other, _ = start_cluster(NEVER_S, folders=True)

    async def talk():
        received = {}
        for _ in range(3):
            for _ in range(4):
                id = await create(owner)
                _, _, received[id] = await begin(owner, id, "Go on.")
            owner.kill()
            owner.start()
            await asyncio.to_thread(wait_for, owner.ready, "the server to be ready again")
            for id, text in received.items():
                found = await items(other, id)
                assert found[0] == ("user", "Go on.") and agree(found[1][1], text, "token"), (found, text)
        for id in received:
            before = await items(other, id)
            answer = await until_answered(other, id, "And now?")
            assert await items(owner, id) == [*before, ("user", "And now?"), ("assistant", text_of(answer))]

    run(talk())


def test_socket_resumes_at_another_server(start_cluster):
    """The client that lost its server continues with the same ids; no event is missing, and its epoch is known."""
    owner, other, _ = start_cluster(2, "token")

    async def talk():
        id = await create(owner)
        first = await Socket.open(PORT, owner.address)
        epoch = (await first.resume(id))["epoch"]
        await first.close()
        _, events, received = await begin(owner, id, "Go on.")
        response, after = events[0]["response"]["id"], events[-1]["ringside"]["seq"]
        owner.kill()
        while True:
            socket = await Socket.open(PORT, other.address)
            await socket.send({"type": "ringside:session.resume", "session": id, "epoch": epoch, "after": after})
            resumed = await socket.receive()
            if resumed["type"] == "ringside:session.resumed":
                break
            assert resumed["error"]["code"] == "conversation_locked", resumed
            await socket.close()
            await asyncio.sleep(0.1)
        assert resumed["session_present"] and resumed["epoch"] > epoch and resumed["replay"] == "events", resumed
        numbers = [after]
        while True:
            event = await socket.receive()
            numbers.append(event["ringside"]["seq"])
            received += event.get("delta", "")
            if event["type"] in TERMINAL:
                break
        assert numbers == sorted(set(numbers)) and event["type"] == "response.incomplete", (numbers, event)
        assert event["response"]["id"] == response and text_of(event["response"]) == received
        await socket.close()

    run(talk())


def test_paused_server_is_fenced(start_cluster):
    """It wakes up after others took its sessions over, writes nothing, and ends with a status of its own."""
    owner, other, third = start_cluster(2)

    async def talk():
        id = await create(owner)
        await asyncio.to_thread(post, owner, id, "Hello.")
        socket, _, _ = await begin(owner, id, "Go on.")
        owner.pause()
        answer = await until_answered(other, id, "And now?")
        before = await items(third, id)
        assert before[-2:] == [("user", "And now?"), ("assistant", text_of(answer))]
        owner.resume()
        assert await asyncio.to_thread(owner.process.wait) == FENCED, owner.process.tail()
        assert await items(third, id) == before
        socket.abort()

    run(talk())
