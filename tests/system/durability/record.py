"""What the clients of the kill test asked for and were told, kept outside the server.

Every request is written down before it is sent and every acknowledgement when it is read, in memory and in a file that explains
a failure. A session is used by one client at a time, so at most one request of it is open when the server dies: its outcome
is unknown, everything else is certain.
"""

import json
from collections import Counter


class Turn:
    """One answer: what was asked, and what has been heard of it."""

    def __init__(self, request_id, text, fields):
        self.request_id = request_id
        self.text = text  # the user's message; None: go on with an interrupted answer
        self.fields = fields
        self.response_id = None  # known = response.created was read: the message is acknowledged
        self.heard = ""  # every delta that was read
        self.events = 0

    def request(self, conversation):
        content = [] if self.text is None else self.text
        return {"type": "response.create", "conversation": conversation, "input": content,
                "metadata": {"client_request_id": self.request_id}, **self.fields}

    def hear(self, event):
        """Takes the next event; true at the end. Every event once, in order."""
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
        self.mark = mark  # its metadata: by it a conversation is found whose creation was not acknowledged
        self.id = None
        self.items = []  # (role, text), certain
        # What makes the same conversation on another server: ("turn", Turn, tokens, text, cut), ("keep", items).
        self.replay = []
        self.position = None  # the last {"seq", "chain"} it was told
        self.answers = 0  # of its own, not of what it was forked from
        self.cut = None  # the interrupted Turn that its last answer is the beginning of
        self.cut_tokens = 0  # of the conversation, when it was found interrupted
        self.open = None  # the request without an outcome: ("turn", Turn), ("delete",), ("rewind", to), ("fork", Session)
        self.restores = 0  # answers that began from host or disk
        self.crashes = 0  # deaths of the server that it has lived through

    def acknowledge_turn(self, turn, response):
        """The end of an answer was read."""
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
            # What goes on with an answer is part of it.
            stem = self.items.pop()[1] if turn.text is None and self.items[-1][0] == "assistant" else ""
            self.items.append(("assistant", stem + text))
        self.replay.append(("turn", turn, tokens, text, cut))
        self.answers += 1
        self.cut = turn if cut else None

    def child(self, id, at):
        """A fork of it with the first `at` items."""
        child = Session(self.mark)
        child.id, child.items, child.replay = id, list(self.items), list(self.replay)
        child.keep(at)
        return child

    def keep(self, items):
        """A rewind to so many items was acknowledged."""
        del self.items[items:]
        self.replay.append(("keep", items))
        self.cut = None


def check_report(session, turn, response):
    """What an answer says of its own cost agrees with itself (I17)."""
    report, usage = response["ringside"], response["usage"]
    where = (session.id, report, usage)
    assert response["status"] in ("completed", "incomplete"), response
    assert usage["input_tokens_details"]["cached_tokens"] == report["tokens_reused"], where
    assert usage["total_tokens"] == usage["input_tokens"] + usage["output_tokens"], where
    assert 0 < usage["output_tokens"] <= turn.fields["max_output_tokens"], where
    assert report["source"] in ("new", "slot", "host", "disk", "recomputed"), where
    assert report["tokens_reused"] == 0 or report["source"] != "new", where
    assert report["tokens_reused"] > 0 or report["source"] in ("new", "recomputed"), where
    # A rebuild may keep what was pinned.
    assert report["tokens_reused"] + report["tokens_computed"] <= usage["input_tokens"], where
    assert report["source"] != "new" or not session.items or session.answers == 0, where
    if report["source"] in ("slot", "host", "disk"):
        # Nothing is computed twice: what was found and what was computed are the whole of it.
        assert report["tokens_reused"] + report["tokens_computed"] == usage["input_tokens"], where
    if report["source"] not in ("host", "disk"):
        assert report["restore_ms"] == 0, where
    # The answer's last token has been sampled, not yet read.
    assert usage["input_tokens"] <= report["position"] <= usage["total_tokens"] + 1, where


class Record:
    """The sessions, and the file."""

    def __init__(self, path):
        self.file = open(path, "a", buffering=1 << 16)
        self.sessions = {}  # id to Session
        self.chains = []
        self.deleted = set()  # ids whose deletion was acknowledged
        self.creating = {}  # mark to Session: creation sent, no outcome
        self.marks = 0
        self.turns = 0  # answers whose end was read
        self.counts = Counter()  # where caches came from; what was open when the server died

    def note(self, what, **facts):
        self.file.write(json.dumps({"what": what, **facts}) + "\n")

    def new_session(self):
        self.marks += 1
        return Session(str(self.marks))
