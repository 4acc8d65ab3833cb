"""Turns over HTTP under failures: clients that disconnect or retry, a killed server, a drain.

    scripts/python -m pytest tests/system/transport/http_turns_test.py
"""

import asyncio
import json

from server_process import run, wait_for
from wire import Http, text_of

ENDLESS = {"max_output_tokens": 1 << 18, "ignore_eos": True, "temperature": 0}
SHORT = {"max_output_tokens": 40, "ignore_eos": True, "temperature": 0}


def message(path, body, *headers):
    data = json.dumps(body).encode()
    head = [f"POST {path} HTTP/1.1", "Host: 127.0.0.1", f"Content-Length: {len(data)}", *headers]
    return "\r\n".join(head).encode() + b"\r\n\r\n" + data


async def call(port, method, path, body=None):
    http = Http(port)
    try:
        status, answer = await http.call(method, path, body)
        assert status == 200, answer
        return answer
    finally:
        http.close()


async def begin(port, body, *headers):
    """Sends a request without waiting for the answer."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(message("/v1/responses", body, *headers))
    return reader, writer


async def events_of(reader):
    """Yields the events of a stream, to its end; the status must be 200."""
    head = await reader.readuntil(b"\r\n\r\n")
    assert head.split()[1] == b"200", head
    async for line in reader:
        if line.startswith(b"data: {"):
            yield json.loads(line[6:])


async def begin_stream(port, body, deltas, *headers):
    """Starts a streamed answer and reads `deltas` deltas; returns the response id, the text so far and
    the connection."""
    reader, writer = await begin(port, {**body, "stream": True}, *headers)
    id, heard = None, ""
    async for event in events_of(reader):
        if event["type"] == "response.created":
            id = event["response"]["id"]
        elif event["type"] == "response.output_text.delta":
            heard += event["delta"]
            deltas -= 1
        if deltas == 0:
            return id, heard, writer
    raise AssertionError("the stream ended early")


def running(server):
    return server.metrics()["ringside_num_requests_running"]


def answering(server):
    """Whether a turn generates: the warm-up turn generates nothing."""
    return server.metrics()["ringside_generation_tokens_total"] > 5


async def drop(writer):
    """The client disappears without a close."""
    writer.transport.abort()
    await asyncio.sleep(0)  # lets the loop close it


def test_only_stored_answers_continue_without_their_client(start):
    server = start()

    async def main():
        for stream in (False, True):
            if stream:
                id, heard, writer = await begin_stream(server.port, {"input": "Go", **ENDLESS}, 3)
                await drop(writer)
                assert (await call(server.port, "GET", f"/v1/responses/{id}"))["status"] == "in_progress"
                ended = await call(server.port, "POST", f"/v1/responses/{id}/cancel")
                assert ended["status"] == "cancelled" and text_of(ended).startswith(heard)
                _, _, writer = await begin_stream(server.port, {"input": "Go", "store": False, **ENDLESS}, 3)
            else:
                _, writer = await begin(server.port, {"input": "Go", "store": False, **ENDLESS})
                wait_for(lambda: running(server) == 1, "the turn runs")
            await drop(writer)
            wait_for(lambda: running(server) == 0, "the unstored answer is cancelled")

    run(main())
    server.stop()


def test_repeated_request_returns_the_first_answer(start, store):
    server = start("--store-path", store)

    async def main():
        conversation = (await call(server.port, "POST", "/v1/conversations", {}))["id"]
        parent = await call(server.port, "POST", "/v1/responses", {"input": "Base", **SHORT})
        again = "x-stainless-retry-count: 1"
        for where in ({"conversation": conversation}, {"previous_response_id": parent["id"]}, {}):
            body = {"input": "Tell me.", **SHORT, **where}
            id, heard, writer = await begin_stream(server.port, body, 2)
            await drop(writer)
            # One whole and one streamed request at once: both attach to the running answer.
            reader, whole = await begin(server.port, body, again, "Connection: close")
            events_reader, streamed = await begin(server.port, {**body, "stream": True}, again)
            events = [event async for event in events_of(events_reader)]
            head, answer = (await reader.read()).split(b"\r\n\r\n", 1)
            whole.close()
            streamed.close()
            response = json.loads(answer)
            assert response["id"] == events[0]["response"]["id"] == id
            assert text_of(response) == text_of(events[-1]["response"])
            assert text_of(response).startswith(heard)
            assert response["usage"]["output_tokens"] == SHORT["max_output_tokens"]
        http = Http(server.port)
        assert [role for role, _ in await http.items(conversation)] == ["user", "assistant"]
        http.close()

    run(main())
    server.stop()


def test_killed_server_recognises_a_resent_request(start, store):
    server = start("--store-path", store)
    body = {"input": "Tell me.", **ENDLESS}

    async def main(port):
        conversation = (await call(port, "POST", "/v1/conversations", {}))["id"]
        id, heard, _ = await begin_stream(port, {**body, "conversation": conversation}, 5)
        return conversation, id, heard

    conversation, id, heard = run(main(server.port))
    server.kill()
    server = start("--store-path", store)

    async def again(port):
        reader, writer = await begin(port, {**body, "conversation": conversation}, "x-stainless-retry-count: 2",
                                     "Connection: close")
        response = json.loads((await reader.read()).split(b"\r\n\r\n", 1)[1])
        writer.close()
        http = Http(port)
        items = await http.items(conversation)
        http.close()
        return response, items

    response, items = run(again(server.port))
    assert response["id"] == id and response["incomplete_details"]["reason"] == "interrupted"
    assert text_of(response).startswith(heard)
    assert items == [("user", "Tell me."), ("assistant", text_of(response))]
    server.stop()


def test_background_answer_survives_a_kill(start, store):
    server = start("--store-path", store)
    begun = run(call(server.port, "POST", "/v1/responses", {"input": "Tell me.", "background": True, **ENDLESS}))
    assert begun["status"] in ("queued", "in_progress") and begun["background"] is True
    path = f"/v1/responses/{begun['id']}"

    def told():
        return text_of(json.loads(server.get(path)[1]))

    heard = wait_for(lambda: len(told()) > 20 and told(), "text comes")
    server.kill()
    server = start("--store-path", store)
    response = json.loads(server.get(path)[1])
    assert response["status"] == "incomplete" and response["incomplete_details"]["reason"] == "interrupted"
    assert text_of(response).startswith(heard)
    server.stop()


def test_drain_finishes_answers_and_replies_to_queued_clients(start):
    server = start()

    async def in_time():
        reader, writer = await begin(server.port, {"input": "Go", **ENDLESS, "max_output_tokens": 3000})
        wait_for(lambda: answering(server), "the turn runs")
        server.terminate()
        head, body = (await reader.read()).split(b"\r\n\r\n", 1)
        writer.close()
        return head, json.loads(body)

    head, response = run(in_time())
    assert b" 200 " in head and b"Connection: close" in head
    assert response["usage"]["output_tokens"] == 3000
    assert server.wait() == 0
    server = start("--shutdown-timeout", 6)  # of these, two seconds to report the end, which a slow machine needs

    async def too_late():
        reader, writer = await begin(server.port, {"input": "Go", **ENDLESS})
        wait_for(lambda: answering(server), "the turn runs")
        server.terminate()
        head, body = (await reader.read()).split(b"\r\n\r\n", 1)
        writer.close()
        return head, json.loads(body)

    head, response = run(too_late())
    assert b" 200 " in head and response["incomplete_details"]["reason"] == "interrupted" and text_of(response)
    assert server.wait() == 0


def test_many_concurrent_waiting_clients(start):
    server = start("--slots", 2, "--queue-limit", 300, "--max-turns-per-owner", 0)

    async def main():
        waiting = [await begin(server.port, {"input": f"Go {i}", **SHORT}, "Connection: close") for i in range(200)]
        http = Http(server.port)
        assert (await http.call("GET", "/v1/models"))[0] == 200
        http.close()
        for reader, writer in waiting:
            head, body = (await reader.read()).split(b"\r\n\r\n", 1)
            assert b" 200 " in head
            assert json.loads(body)["usage"]["output_tokens"] == SHORT["max_output_tokens"]
            writer.close()

    run(main())
    server.stop()
