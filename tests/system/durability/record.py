"""What the clients of the kill test requested and received, recorded outside the server.

Every request is recorded before it is sent and every acknowledgement when it is read, in memory and in a file that
helps to explain failures. Only one client uses a session at a time, so at most one of its requests is open when the
server dies: that outcome is unknown, everything else is certain.
"""

import json
from collections import Counter


class Turn:
    """One answer: the request, and the events received so far."""

    def __init__(self, request_id, text, fields):
        self.request_id = request_id
        self.text = text  # the user's message; None: continue an interrupted answer
        self.fields = fields
        self.response_id = None  # set once response.created was read: the message is acknowledged
        self.heard = ""  # concatenation of all deltas read
        self.events = 0

    def request(self, conversation):
        content = [] if self.text is None else self.text
        return {"type": "response.create", "conversation": conversation, "input": content,
                "metadata": {"client_request_id": self.request_id}, **self.fields}

    def hear(self, event):
        """Records the next event; returns true at the end. Every event must come once, in order."""
        assert event["type"] != "error", event
        if event["type"].startswith("ringside:"):
            return False
        assert event["sequence_number"] == self.events, (self.events, event)
        self.events += 1
        if event["type"] == "response.created":
            self.response_id = event["response"]["id"]
        elif event["type"] == "response.output_text.delta":
            self.heard += event["delta"]
        return event["type"] in ("response.completed", "response.incomplete", "response.failed")


class Session:
    """One conversation as its clients know it."""

    def __init__(self, mark):
        self.mark = mark  # its metadata; identifies a conversation whose creation was not acknowledged
        self.id = None
        self.items = []  # (role, text), acknowledged
        # Steps that recreate the conversation on another server: ("turn", Turn, tokens, text, cut), ("keep", items).
        self.replay = []
        self.position = None  # the last {"seq", "chain"} received
        self.answers = 0  # excluding those before the fork
        self.cut = None  # the interrupted Turn whose text is the last answer
        self.cut_tokens = 0  # length of the conversation when it was found interrupted
        self.open = None  # the request without a known outcome: ("turn", Turn), ("delete",), ("rewind", to), ("fork", Session)
        self.restores = 0  # answers whose cache came from host or disk
        self.crashes = 0  # server deaths that it survived

    def acknowledge_turn(self, turn, response):
        """Records that the end of an answer was read."""
        text = "".join(part["text"] for item in response["output"] for part in item["content"])
        assert text == turn.heard, (text, turn.heard)
        check_report(self, turn, response)
        self.take_answer(turn, text, response["usage"]["output_tokens"])
        report = response["ringside"]
        if "chain" in report:
            self.position = {"seq": report["seq"], "chain": report["chain"]}
        self.restores += report["source"] in ("host", "disk")

    def take_answer(self, turn, text, tokens, cut=False):
        if turn.text is not None:
            self.items.append(("user", turn.text))
        if tokens > 0:
            # A continuation becomes part of the answer.
            stem = self.items.pop()[1] if turn.text is None and self.items[-1][0] == "assistant" else ""
            self.items.append(("assistant", stem + text))
        self.replay.append(("turn", turn, tokens, text, cut))
        self.answers += 1
        self.cut = turn if cut else None

    def child(self, id, at):
        """Returns a fork with the first `at` items."""
        child = Session(self.mark)
        child.id, child.items, child.replay = id, list(self.items), list(self.replay)
        child.keep(at)
        return child

    def keep(self, items):
        """Records an acknowledged rewind to `items` items."""
        del self.items[items:]
        self.replay.append(("keep", items))
        self.cut = None


def check_report(session, turn, response):
    """Checks that an answer's cost report is consistent (I17)."""
    report, usage = response["ringside"], response["usage"]
    where = (session.id, report, usage)
    assert response["status"] in ("completed", "incomplete"), response
    assert usage["input_tokens_details"]["cached_tokens"] == report["tokens_reused"], where
    assert usage["total_tokens"] == usage["input_tokens"] + usage["output_tokens"], where
    assert 0 < usage["output_tokens"] <= turn.fields["max_output_tokens"], where
    assert report["source"] in ("new", "slot", "host", "disk", "recomputed"), where
    assert report["tokens_reused"] == 0 or report["source"] != "new", where
    assert report["tokens_reused"] > 0 or report["source"] in ("new", "recomputed"), where
    # A rebuild may keep the pinned tokens.
    assert report["tokens_reused"] + report["tokens_computed"] <= usage["input_tokens"], where
    assert report["source"] != "new" or not session.items or session.answers == 0, where
    if report["source"] in ("slot", "host", "disk"):
        # Nothing is computed twice: reused and computed tokens add up to the input.
        assert report["tokens_reused"] + report["tokens_computed"] == usage["input_tokens"], where
    if report["source"] not in ("host", "disk"):
        assert report["restore_ms"] == 0, where
    # The answer's last token has been sampled but not yet computed.
    assert usage["input_tokens"] <= report["position"] <= usage["total_tokens"] + 1, where


class Record:
    """The sessions, and the log file."""

    def __init__(self, path):
        self.file = open(path, "a", buffering=1 << 16)
        self.sessions = {}  # id to Session
        self.chains = []
        self.deleted = set()  # ids whose deletion was acknowledged
        self.creating = {}  # mark to Session: creation sent, outcome unknown
        self.marks = 0
        self.turns = 0  # answers whose end was read
        self.counts = Counter()  # cache sources, and requests that were open when the server died

    def note(self, what, **facts):
        self.file.write(json.dumps({"what": what, **facts}) + "\n")

    def new_session(self):
        self.marks += 1
        return Session(str(self.marks))
