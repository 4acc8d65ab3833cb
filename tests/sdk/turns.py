"""Shared by the tests of both SDK flavours: reads one answer and checks its events against the SDK's own types."""

from openai.types.responses.responses_server_event import ResponsesServerEvent
from pydantic import TypeAdapter

TERMINAL = {"response.completed", "response.incomplete", "response.failed", "error"}
GREEDY = {"temperature": 0, "max_output_tokens": 24}
EVENT_TYPE = TypeAdapter(ResponsesServerEvent)


def model_of(client):
    return client.models.list().data[0].id


def read_answer(connection):
    """The events of one answer from the SDK's iterator, up to the terminal event."""
    events = []
    for event in connection:
        events.append(event)
        if event.type in TERMINAL:
            return events
    raise AssertionError("the connection ended before the answer")


async def read_answer_async(connection):
    events = []
    async for event in connection:
        events.append(event)
        if event.type in TERMINAL:
            return events
    raise AssertionError("the connection ended before the answer")


def completed(events):
    """Returns the response of a finished answer; an error fails the test."""
    last = events[-1]
    assert last.type in {"response.completed", "response.incomplete"}, last
    return last.response


def events_equal(streamed, live):
    """Asserts equal events and sequence numbers; deltas merged for a slow reader are compared by their text."""

    def essence(events):
        text = "".join(event.delta for event in events if event.type == "response.output_text.delta")
        others = [event.to_dict() for event in events if event.type != "response.output_text.delta"]
        return text, others

    return bool(live) and essence(streamed) == essence(live) and streamed[-1].sequence_number == live[-1].sequence_number


def ask(connection, text, **fields):
    connection.response.create(input=text, **{**GREEDY, **fields})
    return completed(read_answer(connection))


def send(connection, **fields):
    """Sends response.create with fields that the SDK's method lacks."""
    connection.send({"type": "response.create", **GREEDY, **fields})
    return read_answer(connection)


def check_order(events, stream_id=None):
    """Checks the standard event order of a complete text answer."""
    types = [event.type for event in events]
    deltas = [event for event in events if event.type == "response.output_text.delta"]
    assert types == (
        ["response.created", "response.in_progress", "response.output_item.added", "response.content_part.added"]
        + ["response.output_text.delta"] * len(deltas)
        + ["response.output_text.done", "response.content_part.done", "response.output_item.done", types[-1]]
    ), types
    assert types[-1] in {"response.completed", "response.incomplete"}
    assert deltas, "no text arrived"
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert all(getattr(event, "stream_id", None) == stream_id for event in events)

    final = events[-1].response
    assert len({event.response.id for event in events if hasattr(event, "response")}) == 1
    assert events[0].response.status == "in_progress" and events[0].response.output == []
    assert final.status == ("completed" if types[-1] == "response.completed" else "incomplete")
    text = "".join(delta.delta for delta in deltas)
    assert text == events[-4].text == events[-3].part.text == events[-2].item.content[0].text == final.output_text
    assert len(final.output) == 1 and final.output[0].id == events[2].item.id
    assert {event.item_id for event in events if hasattr(event, "item_id")} == {events[2].item.id}
    usage = final.usage
    assert usage.total_tokens == usage.input_tokens + usage.output_tokens
    assert 0 <= usage.input_tokens_details.cached_tokens <= usage.input_tokens
    assert usage.output_tokens > 0
    report = final.model_extra["ringside"]
    assert report["source"] in {"new", "slot", "host", "disk", "recomputed"}
    assert report["tokens_reused"] == usage.input_tokens_details.cached_tokens
    assert report["tokens_computed"] >= usage.input_tokens - usage.input_tokens_details.cached_tokens
