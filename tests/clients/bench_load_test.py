#!/usr/bin/env python3
"""`ringside bench load` against a scripted server: its requests in each protocol, and figures that match the script.

Environment: RINGSIDE_CLIENT, the client's binary.
"""

import asyncio
import json
import os
import subprocess
import tempfile
import threading
import xml.etree.ElementTree
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from websockets.asyncio.server import serve
from websockets.exceptions import ConnectionClosed

CLIENT = os.path.abspath(os.environ.get("RINGSIDE_CLIENT", "build/cpu/bin/ringside"))
WORDS = ["Once ", "upon ", "a ", "time."]
USAGE = {"input_tokens": 40, "input_tokens_details": {"cached_tokens": 30}, "output_tokens": 4}


class Script(BaseHTTPRequestHandler):
    """Answers with four words, and refuses every message that contains "refuse"."""
    protocol_version = "HTTP/1.1"
    asked = []  # (path, body)

    def log_message(self, *_):
        pass

    def do_GET(self):
        self.answer(200, "application/json", json.dumps({"data": [{"id": "scripted"}]}))

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.asked.append((self.path, body))
        if "refuse" in json.dumps(body):
            return self.answer(429, "application/json", json.dumps({"error": {"message": "Not now."}}))
        if self.path == "/v1/responses":
            events = responses_events(f"resp_{len(self.asked)}")
        elif self.path == "/v1/chat/completions":
            events = [{"choices": [{"index": 0, "delta": {"content": word}}]} for word in WORDS] + [chat_usage()]
        else:
            events = [{"choices": [{"index": 0, "text": word}]} for word in WORDS] + [chat_usage()]
        stream = "".join(f"data: {json.dumps(event)}\n\n" for event in events) + "data: [DONE]\n\n"
        return self.answer(200, "text/event-stream; charset=utf-8", stream)

    def answer(self, status, kind, text):
        data = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def chat_usage():
    return {"choices": [], "usage": {"prompt_tokens": 40, "prompt_tokens_details": {"cached_tokens": 30},
                                     "completion_tokens": 4}}


def responses_events(id):
    return ([{"type": "response.created", "response": {"id": id}}] +
            [{"type": "response.output_text.delta", "delta": word} for word in WORDS] +
            [{"type": "response.completed", "response": {"id": id, "usage": USAGE}}])


def bench(port, folder, *flags):
    """Returns the exit code, the figures as JSON, and the chart's root element."""
    figures, picture = Path(folder) / "figures.json", Path(folder) / "picture.svg"
    done = subprocess.run([CLIENT, "bench", "load", "--url", f"http://127.0.0.1:{port}", "--think", "0", "--json", figures,
                           "--svg", picture, *map(str, flags)], capture_output=True, text=True, timeout=120, check=False)
    return done, json.loads(figures.read_text()), xml.etree.ElementTree.parse(picture).getroot()


def check_figures(figures, turns):
    assert (figures["turns"], figures["failures"]) == (turns, 0), figures
    assert figures["output_tokens"] == 4 * turns and figures["cached_ratio"] == 0.75, figures
    assert len(figures["records"]) == turns
    for record in figures["records"]:
        assert record["error"] is None and len(record["itl_ms"]) == 3, record
        assert 0 <= record["ttft_ms"] <= record["e2e_ms"], record
    for name in ("ttft_ms", "itl_ms", "e2e_ms"):
        assert figures[name]["p50"] <= figures[name]["p90"] <= figures[name]["p99"], figures


def test_chat(port, folder):
    Script.asked.clear()
    done, figures, picture = bench(port, folder, "--protocol", "chat", "-n", 3, "--turns", 3, "--warm-up", 2, "--rate", 50,
                                   "--max-tokens", 4)
    assert done.returncode == 0, done
    check_figures(figures, 9)
    assert picture.tag.endswith("svg")
    bodies = [body for path, body in Script.asked if path == "/v1/chat/completions"]
    assert len(bodies) == 15, "the warm-up is asked and not counted"
    assert all(body["model"] == "scripted" and body["max_tokens"] == 4 for body in bodies)
    longest = max(bodies, key=lambda body: len(body["messages"]))
    assert [m["role"] for m in longest["messages"]] == ["user", "assistant"] * 2 + ["user"]
    assert longest["messages"][1]["content"] == "".join(WORDS), "the history has the answers that were heard"


def test_completions(port, folder):
    Script.asked.clear()
    done, figures, _ = bench(port, folder, "--protocol", "completions", "-n", 1, "--turns", 2)
    assert done.returncode == 0, done
    check_figures(figures, 2)
    assert "Assistant: " + "".join(WORDS) + "\nUser: " in Script.asked[-1][1]["prompt"]


def test_responses_http(port, folder):
    Script.asked.clear()
    done, figures, _ = bench(port, folder, "--protocol", "responses-http", "-n", 1, "--turns", 2)
    assert done.returncode == 0, done
    check_figures(figures, 2)
    first, second = (body for _, body in Script.asked)
    assert "previous_response_id" not in first and second["previous_response_id"] == "resp_1"


def test_dataset_and_errors(port, folder):
    dataset = Path(folder) / "dataset.json"
    dataset.write_text(json.dumps([
        {"conversations": [{"from": "human", "value": "Hello."}, {"from": "gpt", "value": "Hi."},
                           {"from": "human", "value": "Please refuse."}, {"from": "human", "value": "never said"}]},
        {"messages": [{"role": "user", "content": "The other one."}]}]))
    Script.asked.clear()
    done, figures, _ = bench(port, folder, "--protocol", "chat", "-n", 3, "--turns", 5, "--dataset", dataset)
    assert done.returncode == 1 and "http_429: Not now." in done.stderr, done
    assert (figures["turns"], figures["failures"], figures["errors"]) == (3, 2, {"http_429": 2}), figures
    said = sorted(body["messages"][-1]["content"] for _, body in Script.asked)
    assert said == ["Hello.", "Hello.", "Please refuse.", "Please refuse.", "The other one."], said


def test_responses_ws(folder):
    asked, sockets = [], []

    async def talk(socket):
        sockets.append(socket)
        try:
            async for message in socket:
                asked.append(json.loads(message))
                for event in responses_events(f"resp_{len(asked)}"):
                    await socket.send(json.dumps(event))
        except ConnectionClosed:
            pass  # the client closes without a close frame

    async def main():
        async with serve(talk, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            return await asyncio.to_thread(bench, port, folder, "--protocol", "responses-ws", "--model", "m", "-n", 2,
                                           "--turns", 3)

    done, figures, _ = asyncio.run(main())
    assert done.returncode == 0, done
    check_figures(figures, 6)
    assert len(sockets) == 2, "a conversation has one socket"
    assert sum("previous_response_id" in body for body in asked) == 4
    assert all(body["type"] == "response.create" and body["model"] == "m" for body in asked)


def test_nobody(folder):
    done = subprocess.run([CLIENT, "bench", "load", "--url", "http://127.0.0.1:9", "--protocol", "chat", "--model", "m", "-n",
                           "1"], capture_output=True, text=True, timeout=120, check=False, cwd=folder)
    assert done.returncode == 1 and "lost" in done.stderr, done


def main():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Script)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    port = server.server_address[1]
    with tempfile.TemporaryDirectory() as folder:
        for test in (test_chat, test_completions, test_responses_http, test_dataset_and_errors):
            test(port, folder)
            print("ok", test.__name__, flush=True)
        for test in (test_responses_ws, test_nobody):
            test(folder)
            print("ok", test.__name__, flush=True)
    server.shutdown()


if __name__ == "__main__":
    os.environ["NO_PROXY"] = os.environ["no_proxy"] = "127.0.0.1"
    main()
