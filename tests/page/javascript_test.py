"""A browser application of another origin talks to the server as the official JavaScript SDK does: streamed chat and
responses, aborts, and WebSocket turns with the key among the subprotocols."""

import contextlib
import http.server
import threading
import urllib.request
from pathlib import Path

import pytest
from server_process import wait_for

CLIENT = Path(__file__).with_name("javascript_client.js").read_bytes()
SHORT = {"temperature": 0, "seed": 1}
CHAT = {"model": "tiny", "messages": [{"role": "user", "content": "Speak"}], **SHORT}


@pytest.fixture(scope="module")
def origin():
    """A web server with only an empty page and the client's script."""

    class Files(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            script = self.path == "/client.js"
            self.send_response(200)
            self.send_header("Content-Type", "text/javascript" if script else "text/html")
            self.end_headers()
            self.wfile.write(CLIENT if script else b"<!doctype html><link rel=icon href=data:,><title>An application</title>")

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Files) as files:
        threading.Thread(target=files.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{files.server_port}"
        files.shutdown()


@pytest.fixture
def application(browser, start, origin):
    """Returns a function that runs a script in the application's page: `base` is the server's address, `client` the
    module."""
    with contextlib.closing(browser.new_context()) as context:
        page = context.new_page()
        page.goto(origin)

        def run(server, script):
            return page.evaluate(f"""async (base) => {{ const client = await import("/client.js"); {script} }}""",
                                 f"http://127.0.0.1:{server.port}")

        yield run


@pytest.fixture
def server(start, origin):
    return start("--api-key", "open-sesame", "--allowed-origins", origin)


def running(server):
    """Number of running turns. The metrics require the key, too."""
    request = urllib.request.Request(f"http://127.0.0.1:{server.port}/metrics", headers={"Authorization": "Bearer open-sesame"})
    with urllib.request.urlopen(request) as response:
        lines = response.read().decode().splitlines()
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith("ringside_num_requests_running"))


def test_chat_whole_and_streamed(server, application):
    whole, streamed = application(server, f"""
      const body = {{ ...{CHAT!r}, max_completion_tokens: 30 }};
      const whole = await (await client.post(base, "/v1/chat/completions", body)).json();
      const response = await client.post(base, "/v1/chat/completions", {{ ...body, stream: true, stream_options: {{ include_usage: true }} }});
      const chunks = [];
      for await (const {{ name, data }} of client.events(response)) chunks.push(data);
      return [whole, chunks];""")
    assert whole["usage"]["completion_tokens"] == 30
    assert "".join(choice["delta"].get("content") or "" for chunk in streamed for choice in chunk["choices"]) == whole["choices"][0]["message"]["content"]
    assert streamed[-1]["usage"]["completion_tokens"] == 30
    assert [choice["finish_reason"] for chunk in streamed for choice in chunk["choices"]][-1] == "length"


def test_streamed_response_continues_another(server, application):
    first, events = application(server, f"""
      const body = {{ model: "tiny", input: "Speak", max_output_tokens: 10, temperature: 0 }};
      const first = await (await client.post(base, "/v1/responses", body)).json();
      const response = await client.post(base, "/v1/responses", {{ ...body, input: "Go on", previous_response_id: first.id, stream: true }});
      const heard = [];
      for await (const {{ name, data }} of client.events(response)) heard.push([name, data]);
      return [first, heard];""")
    assert all(name == event["type"] for name, event in events)
    assert [event["sequence_number"] for _, event in events] == list(range(len(events)))
    final = events[-1][1]["response"]
    text = "".join(event["delta"] for _, event in events if event["type"] == "response.output_text.delta")
    assert final["output"][0]["content"][0]["text"] == text
    assert final["usage"]["input_tokens_details"]["cached_tokens"] >= first["usage"]["input_tokens"]


def test_abort_ends_an_unstored_turn(server, application):
    heard = application(server, f"""
      const stop = new AbortController();
      const body = {{ ...{CHAT!r}, max_completion_tokens: 1_000_000, stream: true }};
      const response = await client.post(base, "/v1/chat/completions", body, {{ signal: stop.signal }});
      let heard = 0;
      try {{
        for await (const _ of client.events(response)) if (++heard === 5) stop.abort();
      }} catch (error) {{
        return [heard, error.name];
      }}""")
    assert heard[0] >= 5 and heard[1] == "AbortError"
    wait_for(lambda: running(server) == 0, "the turn ends with its client")


def test_abort_keeps_a_stored_turn_running(server, application):
    status, cancelled, again = application(server, """
      const stop = new AbortController();
      const body = { model: "tiny", input: "Speak", temperature: 0, max_output_tokens: 1_000_000, stream: true, background: true };
      const response = await client.post(base, "/v1/responses", body, { signal: stop.signal });
      let id;
      try {
        for await (const { data } of client.events(response)) {
          id ??= data.response.id;
          if (data.type === "response.output_text.delta") stop.abort();
        }
      } catch {}
      const headers = { Authorization: "Bearer open-sesame" };
      const get = async () => (await fetch(`${base}/v1/responses/${id}`, { headers })).json();
      const running = (await get()).status;
      const cancelled = await (await client.post(base, `/v1/responses/${id}/cancel`, {})).json();
      return [running, cancelled, await get()];""")
    assert (status, cancelled["status"]) == ("in_progress", "cancelled")
    assert again["output"] == cancelled["output"] and again["output"][0]["content"][0]["text"]


def test_errors_are_the_sdks_errors(server, application, origin):
    bad, taken = application(server, """
      const refusal = async (response) => [response.status, (await response.json()).error, Number(response.headers.get("retry-after-ms"))];
      const bad = await refusal(await client.post(base, "/v1/chat/completions", { model: "tiny", messages: [], stream: true }));
      const { id } = await (await client.post(base, "/v1/conversations", {})).json();
      const body = { conversation: id, input: "Speak", temperature: 0 };
      const long = await (await client.post(base, "/v1/responses", { ...body, max_output_tokens: 1_000_000, background: true })).json();
      const taken = await refusal(await client.post(base, "/v1/responses", body));
      await client.post(base, `/v1/responses/${long.id}/cancel`, {});
      return [bad, taken];""")
    assert bad[0] == 400 and bad[1]["param"] == "messages" and bad[1]["type"] == "invalid_request_error"
    assert (taken[0], taken[1]["code"]) == (409, "conversation_locked") and taken[2] > 0
    # Response headers exposed to scripts; the SDK bases retries on them.
    request = urllib.request.Request(f"http://127.0.0.1:{server.port}/v1/models",
                                     headers={"Authorization": "Bearer open-sesame", "Origin": origin})
    with urllib.request.urlopen(request) as response:
        exposed = response.headers["Access-Control-Expose-Headers"].split(", ")
    assert {"Retry-After", "retry-after-ms", "x-should-retry", "x-request-id"} <= set(exposed)


def test_turns_over_a_websocket(server, application):
    protocol, events, whole = application(server, """
      const socket = await client.socket(base, "/v1/responses", "ringside");
      socket.send(JSON.stringify({ type: "response.create", input: "Speak", temperature: 0, max_output_tokens: 10 }));
      const events = [...(await socket.until("response.incomplete"))];
      const protocol = socket.protocol;
      socket.close();
      const headers = { Authorization: "Bearer open-sesame" };
      return [protocol, events, await (await fetch(`${base}/v1/responses/${events[0].response.id}`, { headers })).json()];""")
    assert protocol == "ringside"
    assert "".join(event.get("delta", "") for event in events) == whole["output"][0]["content"][0]["text"]


def test_a_realtime_session(server, application):
    protocol, types, done = application(server, """
      const socket = await client.socket(base, "/v1/realtime?model=tiny", "realtime");
      await socket.until("session.created");
      socket.send(JSON.stringify({ type: "session.update", session: { type: "realtime", max_output_tokens: 10 } }));
      const content = [{ type: "input_text", text: "Speak" }];
      socket.send(JSON.stringify({ type: "conversation.item.create", item: { type: "message", role: "user", content } }));
      socket.send(JSON.stringify({ type: "response.create" }));
      const heard = await socket.until("response.done");
      return [socket.protocol, heard.map(({ type }) => type), heard.at(-1)];""")
    assert protocol == "realtime"
    assert types[0] == "session.created" and "response.output_text.delta" in types
    assert done["response"]["usage"]["output_tokens"] == 10


def test_a_ticket_opens_one_socket(server, application):
    first, second = application(server, """
      const ticket = (await (await client.post(base, "/v1/realtime/client_secrets", { session: { type: "realtime" } })).json()).value;
      const open = () => client.socket(base, "/v1/realtime?model=tiny", "realtime", ticket).then((socket) => socket.until("session.created")).then(() => "open", () => "refused");
      return [await open(), await open()];""")
    assert (first, second) == ("open", "refused")


def test_other_origins_are_refused(start, application):
    server = start("--api-key", "open-sesame", "--allowed-origins", "https://app.example")
    got = application(server, """
      const refused = (promise) => promise.then(() => "answered", () => "refused");
      return [
        await refused(fetch(`${base}/v1/models`, { headers: { Authorization: "Bearer open-sesame" } })),
        await refused(client.post(base, "/v1/chat/completions", { model: "tiny", messages: [{ role: "user", content: "x" }] })),
        await refused(client.socket(base, "/v1/responses", "ringside")),
        await refused(client.socket(base, "/v1/realtime?model=tiny", "realtime")),
      ];""")
    assert got == ["refused"] * 4
