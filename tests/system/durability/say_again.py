"""Replays a conversation on a server that never died: greedy and seeded answers must have the same text.

This compares a cache that went through host memory, disk and crashes with one that never left its slot.
"""

from wire import Http, Socket, text_of

REPLACEMENT = "\ufffd"  # where an answer was cut inside a character, its two parts do not add up to it


def turns(session):
    """Returns (message, fields, max tokens, text) of each answer with its parts joined, and a number for a rewind to
    that many items."""
    out = []
    for step in session.replay:
        if step[0] == "keep":
            out.append(step[1])
            continue
        _, turn, tokens, text, cut = step
        most = tokens if cut else turn.fields["max_output_tokens"]
        if turn.text is None:
            message, fields, before, stem = out.pop()
            out.append((message, fields, before + most, stem + text))
        else:
            out.append((turn.text, turn.fields, most, text))
    return out


def can_be_said_again(session):
    """False if a character was cut in two: no single turn reproduces that."""
    cuts = [step for step in session.replay if step[0] == "turn" and step[4]]
    return bool(session.items) and not any(step[3].endswith(REPLACEMENT) for step in cuts)


async def say_again(port, session):
    http, socket = Http(port), await Socket.open(port)
    status, conversation = await http.call("POST", "/v1/conversations", {})
    assert status == 200, conversation
    id = conversation["id"]
    for step in turns(session):
        if isinstance(step, int):
            await socket.send({"type": "ringside:session.rewind", "session": id, "to": step})
            answer = await socket.receive()
            assert answer["type"] == "ringside:session.rewound", answer
            continue
        message, fields, most, text = step
        if most == 0:
            body = {"items": [{"type": "message", "role": "user", "content": message}]}
            status, answer = await http.call("POST", f"/v1/conversations/{id}/items", body)
            assert status == 200, answer
            continue
        events = await socket.ask(conversation=id, input=message, **{**fields, "max_output_tokens": most})
        said = text_of(events[-1]["response"])
        assert said == text, f"{session.id} said {text!r}, a server that never died says {said!r} to {message!r}"
    http.close()
    await socket.close()
