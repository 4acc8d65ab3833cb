"""Hostile requests over raw sockets: each is refused once, its connection is closed, and no later byte is read as a
request.

    scripts/python -m pytest tests/system/transport/hostile_test.py
"""

import json
import socket

import hostile_requests
import pytest
from hostile_requests import SMUGGLED, chunked, request

END = request(b"Connection: close\r\n", method=b"GET", target=b"/v1/models")
PATIENCE_S = 20  # below the server's request timeout: a request must be refused at once, not by the timeout


@pytest.fixture(scope="module")
def server(model, tmp_path_factory):
    from server_process import ServerProcess
    with ServerProcess(model, "--threads", 1, folder=tmp_path_factory.mktemp("hostile")) as process:
        yield process.wait_until_ready()


def exchange(port, data):
    """Returns the server's answer up to the close of the connection; None if it does not close."""
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) as connection:
        said = b""
        try:
            connection.sendall(data)
            while piece := connection.recv(65536):
                said += piece
        except TimeoutError:
            return None
        except ConnectionError:
            pass
        return said


def answers(said):
    """Splits a stream of answers into (status, body) pairs."""
    out = []
    while said:
        head, found, rest = said.partition(b"\r\n\r\n")
        assert found and head.startswith(b"HTTP/1.1 "), said[:200]
        fields = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:])
        length = int(fields.get(b"content-length", 0))
        out.append((int(head.split()[1]), rest[:length]))
        said = rest[length:]
    return out


def conversations(server):
    status, body = server.get("/v1/conversations?limit=100")
    assert status == 200, body
    return len(json.loads(body)["data"])


def test_malformed_requests_are_refused_without_smuggling(server):
    shapes = list(hostile_requests.shapes())
    assert len(shapes) >= 200 and len({data for _, data, _ in shapes}) == len(shapes), "each is another one"
    wrong = []
    before, answered = conversations(server), answers_by_status(server)
    for name, data, statuses in shapes:
        said = exchange(server.port, data)
        if said is None:
            wrong.append(f"{name}: the connection goes on")
            continue
        got = answers(said)
        if len(got) != 1 or got[0][0] not in statuses:
            wrong.append(f"{name}: {got}")
        elif json.loads(got[0][1])["error"]["type"] != "invalid_request_error":
            wrong.append(f"{name}: {got[0][1]}")
    assert not wrong, "\n".join([f"{len(wrong)} of {len(shapes)}:", *wrong])
    assert conversations(server) == before, "something was taken for a request that was none"
    assert answers_by_status(server) - answered == len(shapes) + 2, "each was answered once, and the two requests of this test"


def test_clean_refusals_keep_the_connection(server):
    shapes = list(hostile_requests.clean_shapes())
    assert len({data for _, data, _ in shapes}) == len(shapes), "each is another one"
    wrong = []
    before, answered = conversations(server), answers_by_status(server)
    for name, data, statuses in shapes:
        said = exchange(server.port, data + END)
        got = None if said is None else [status for status, _ in answers(said)]
        if got is None or len(got) != 2 or got[0] not in statuses or got[1] != 200:
            wrong.append(f"{name}: {got}")
    assert not wrong, "\n".join([f"{len(wrong)} of {len(shapes)}:", *wrong])
    assert conversations(server) == before, "something was taken for a request that was none"
    assert answers_by_status(server) - answered == 2 * len(shapes) + 2, "every request was answered once, and the two of this test"


def answers_by_status(server):
    """Number of answers the server has given, of any status, without the one that reports the metrics."""
    return sum(count for name, count in server.metrics().items() if name.startswith("ringside_http_responses_total"))


def test_valid_requests_are_answered_once(server):
    made = [request(b"Content-Length: 2\r\n", b"{}"), request(b"content-LENGTH:002\r\n", b"{}"), chunked(b"2\r\n{}\r\n0\r\n\r\n"), chunked(b"0002\r\n{}\r\n000\r\n\r\n"),
            chunked(b"1\r\n{\r\n1\r\n}\r\n0\r\n\r\n"), chunked(b"2;a=1\r\n{}\r\n0;b\r\n\r\n"), chunked(b'2 ;a="x; y"\r\n{}\r\n0\r\n\r\n'), request(b"Transfer-Encoding: \t Chunked \t\r\n", b"2\r\n{}\r\n0\r\n\r\n"),
            request(b"Content-Length: 2\r\n", b"{}", target=b"http://localhost/v1/conversations"), request(b"Expect: 100-continue\r\nContent-Length: 2\r\n", b"{}"), SMUGGLED]
    before = conversations(server)
    for data in made:
        assert [status for status, _ in answers(exchange(server.port, data + END)) if status != 100] == [200, 200], data
    assert conversations(server) == before + len(made)
    many = 500  # pipelined: requests are answered in order, without read-ahead
    got = answers(exchange(server.port, SMUGGLED * many + END))
    assert [status for status, _ in got] == [200] * (many + 1)
    assert len({json.loads(body)["id"] for _, body in got[:-1]}) == many
