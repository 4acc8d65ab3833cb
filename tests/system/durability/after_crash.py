"""Checks after a restart: acknowledged data is present, complete, once and in order; an unacknowledged request took
effect or did not, never in part.

`settle` determines the outcome of a session's open request by asking the server, and fails on any state that no crash
can produce.
"""

import asyncio

from wire import Socket, text_of

DIVERGED = 4412  # close code
ENDED = {"completed": (None,), "incomplete": ("interrupted", "max_output_tokens")}


async def settle(record, http, session):
    """Fetches the session and settles its open request. Returns False if the request deleted it."""
    items = await http.items(session.id)
    opened, session.open = session.open, None
    kind = opened[0] if opened else None
    record.counts[f"open {kind}"] += kind is not None
    if items is None:
        assert kind == "delete", f"lost conversation {session.id}: {session.items}, open: {opened}"
        record.deleted.add(session.id)
        return False
    if kind == "turn":
        await settle_turn(http, session, opened[1], items)
        record.counts["interrupted"] += session.cut is not None
    elif kind == "rewind" and items != session.items:
        assert items == session.items[: opened[1]], (session.id, items, session.items, opened)
        session.keep(opened[1])
    else:
        assert items == session.items, (session.id, kind, items, session.items)
    record.note("settled", id=session.id, open=kind, items=items, cut=session.cut and session.cut.request_id)
    session.crashes += 1
    return True


async def tokens_of(http, session):
    status, conversation = await http.call("GET", f"/v1/conversations/{session.id}")
    assert status == 200, conversation
    return conversation["ringside"]["tokens"]


async def settle_turn(http, session, turn, items):
    """A turn without a known outcome: absent, truncated, or complete."""
    where = (session.id, turn.request_id, turn.response_id, turn.heard)
    before = session.items
    if turn.text is not None:
        expected = before + [("user", turn.text)]
        if items == before:
            assert turn.response_id is None, f"acknowledged message lost: {where}, {items}"
            return
        answer = items[len(expected) :]
        assert items[: len(expected)] == expected and len(answer) <= 1, (where, before, items)
        text = answer[0][1] if answer else ""
        assert not answer or answer[0][0] == "assistant", (where, items)
    else:
        # The turn continued the answer at the end of `before`, or started one.
        stem = before[-1][1] if before[-1][0] == "assistant" else ""
        head = before[:-1] if stem else before
        assert items[: len(head)] == head and len(items) <= len(head) + 1, (where, before, items)
        whole = items[-1][1] if len(items) > len(head) else ""
        assert whole.startswith(stem), (where, before, items)
        text = whole[len(stem) :]
        if turn.response_id is None and await tokens_of(http, session) == session.cut_tokens:
            return  # not started, or cut before its first token: the client may retry
    assert text.startswith(turn.heard), f"acknowledged text lost: {where}, {text!r}"
    if turn.response_id is None:
        await ask_again(http, session, turn, items)
    tokens, reason = await settle_response(http, turn, text)
    session.items = list(before)
    session.take_answer(turn, text, tokens, reason == "interrupted")
    session.cut_tokens = await tokens_of(http, session)
    assert session.items == items, (where, session.items, items)


async def ask_again(http, session, turn, items):
    """Repeats the request as a client without an answer would: it gets the first answer, and nothing is generated twice
    (I11)."""
    socket = await Socket.open(http.port)
    try:
        events = await socket.ask(**{name: value for name, value in turn.request(session.id).items() if name != "type"})
        assert events[0]["type"] == "response.created", (session.id, events)
        turn.response_id = events[0]["response"]["id"]
        assert await http.items(session.id) == items, f"generated twice: {session.id}, {turn.request_id}"
    finally:
        await socket.close()


async def settle_response(http, turn, text):
    """Checks that the response object matches the conversation and reports its end: token count and reason."""
    status, response = await http.call("GET", f"/v1/responses/{turn.response_id}")
    where = (turn.request_id, response)
    assert status == 200, where
    assert response["status"] in ENDED, where
    reason = (response["incomplete_details"] or {}).get("reason")
    assert reason in ENDED[response["status"]], where
    assert text_of(response) == text, (where, text)
    tokens, most = response["usage"]["output_tokens"], turn.fields["max_output_tokens"]
    assert tokens <= most, where
    if reason == "max_output_tokens":
        assert tokens == most, where
    if reason == "interrupted":
        assert tokens > 0 or not text, where
    return tokens, reason


async def settle_listing(record, http):
    """Checks the listing: no deleted conversation, no unknown one, no duplicates."""
    listed = {}
    after = ""
    while True:
        status, page = await http.call("GET", f"/v1/conversations?limit=100{after}")
        assert status == 200, page
        for entry in page["data"]:
            assert entry["id"] not in listed, f"listed twice: {entry}"
            listed[entry["id"]] = entry
        if not page["has_more"]:
            break
        after = "&after=" + page["last_id"]
    assert not (again := record.deleted & listed.keys()), f"deleted conversations are back: {again}"
    missing = [s.id for s in record.sessions.values() if s.id not in listed and (s.open or ("",))[0] != "delete"]
    assert not missing, f"lost conversations: {missing}"
    forks = {}
    for session in record.sessions.values():
        if session.open and session.open[0] == "fork":
            forks.setdefault(session.mark, []).append(session)
    for id in listed.keys() - record.sessions.keys():
        await settle_stranger(record, http, id, listed[id]["metadata"].get("mark"), forks)
    record.creating.clear()


async def settle_stranger(record, http, id, mark, forks):
    """A conversation whose creation or fork was requested but not acknowledged. It is deleted here, so that later
    listings stay clean."""
    items = await http.items(id)
    if not items and record.creating.pop(mark, None):
        pass
    else:
        parents = forks.get(mark, [])
        parent = next((p for p in parents if items == p.items[: p.open[1]]), None)
        assert parent is not None, f"a conversation that nobody asked for: {id} with mark {mark}, {items}"
        parents.remove(parent)
    status, answer = await http.call("DELETE", f"/v1/conversations/{id}")
    assert status == 200, answer
    record.deleted.add(id)


async def settle_position(port, session):
    """The last acknowledged position is in the server's history; a different history is refused (I3)."""
    if session.position is None:
        return
    socket = await Socket.open(port)
    try:
        resumed = await socket.resume(session.id, known=session.position)
        assert resumed["session_present"], (session.id, resumed)
        assert resumed["position"]["seq"] >= session.position["seq"], (session.id, session.position, resumed)
        other = {**session.position, "chain": session.position["chain"][::-1]}
        await socket.send({"type": "ringside:session.resume", "session": session.id, "known": other})
        refused = await socket.receive()
        assert refused["type"] == "ringside:session.failed" and refused["error"]["code"] == "history_diverged", refused
        code = await socket.read_to_close()
        assert code == DIVERGED, code
    finally:
        socket.abort()


async def settle_all(record, port, sessions, https):
    """Settles `sessions` over several connections in parallel."""
    queue = list(sessions)

    async def work(http):
        while queue:
            session = queue.pop()
            if not await settle(record, http, session):
                del record.sessions[session.id]

    await settle_listing(record, https[0])
    await asyncio.gather(*map(work, https))
