"""The stock synchronous OpenAI SDK in the Responses WebSocket mode."""

import threading

import openai
import pytest
from openai.lib.responses_websocket import (
    ResponsesWebSocketAccumulator,
    ResponsesWebSocketError,
    ResponsesWebSocketLimits,
    ResponsesWebSocketSession,
)
from server import PATIENCE_S
from turns import EVENT_TYPE, GREEDY, TERMINAL, ask, check_order, completed, read_answer, send

LIMITS = ResponsesWebSocketLimits(
    max_lanes=8, max_events_per_lane=2048, max_events=8192, max_bytes_per_lane=1 << 24, max_bytes=1 << 25
)


def test_is_the_newest_sdk():
    assert openai.__version__ == "3.52.0"


def test_events_are_in_the_standard_order(connection):
    connection.response.create(input="Say hello.", **GREEDY)
    check_order(read_answer(connection))


def test_every_event_satisfies_the_sdks_own_types(connection):
    connection.send({
        "type": "response.create", "input": "Say hello.", "top_logprobs": 2,
        "include": ["message.output_text.logprobs"], **GREEDY,
    })
    kind = None
    while kind not in TERMINAL:
        kind = EVENT_TYPE.validate_json(connection.recv_bytes()).type
    assert kind != "error"


def test_chained_turns_compute_only_new_tokens(connection):
    first = ask(connection, "The secret word is banana.")
    second = ask(connection, "What is the secret word?", previous_response_id=first.id)
    third = ask(connection, "Please say it once more.", previous_response_id=second.id)
    assert "banana" in second.output_text.lower()
    for before, after in ((first, second), (second, third)):
        # The last token of an answer enters the cache only in the next turn.
        assert after.usage.input_tokens_details.cached_tokens >= before.usage.total_tokens - 2
        assert after.usage.input_tokens > before.usage.total_tokens
        assert after.previous_response_id == before.id
        assert after.model_extra["ringside"]["source"] == "slot"


def test_turns_equal_one_prompt(client):
    texts = ["Name one colour.", "Name another one.", "And a third?"]
    with client.responses.connect() as connection:
        previous, history = None, []
        for text in texts:
            answer = ask(connection, text, previous_response_id=previous, max_output_tokens=60)
            previous = answer.id
            history += [{"role": "user", "content": text}, *answer.output]
        last = answer.output_text
    with client.responses.connect() as connection:
        # The SDK returns the items it received: every field of our output items must be valid input.
        assert ask(connection, history[:-1], max_output_tokens=60).output_text == last


def test_turns_by_conversation(client, connection):
    conversation = client.conversations.create()
    first = ask(connection, "My dog is called Rex.", conversation=conversation.id)
    assert first.conversation.id == conversation.id
    second = ask(connection, "What is my dog called?", conversation={"id": conversation.id})
    assert "Rex" in second.output_text
    assert second.usage.input_tokens_details.cached_tokens >= first.usage.total_tokens - 2
    items = list(client.conversations.items.list(conversation.id, order="asc"))
    assert [item.role for item in items] == ["user", "assistant", "user", "assistant"]
    assert items[3].content[0].text == second.output_text
    # Another socket continues this conversation.
    with client.responses.connect() as other:
        third = ask(other, "Thank you.", conversation=conversation.id)
        assert third.usage.input_tokens_details.cached_tokens >= second.usage.total_tokens - 2


def test_instructions_apply_to_their_request(connection):
    answer = ask(connection, "Who are you?", instructions="You are a parrot called Polly. Say your name.")
    assert answer.instructions == "You are a parrot called Polly. Say your name."
    assert "Polly" in answer.output_text


def test_warm_up_prefills_and_can_be_continued(connection):
    text = "Here is a long story. " * 20
    connection.response.create(input=text, generate=False)
    events = read_answer(connection)
    assert [event.type for event in events] == ["response.created", "response.completed"]
    warm = events[-1].response
    assert warm.output == [] and warm.usage.output_tokens == 0
    answer = ask(connection, "Summarise it.", previous_response_id=warm.id)
    assert answer.usage.input_tokens_details.cached_tokens >= warm.usage.input_tokens - 1


def lane_dialogue(name):
    """The prompts of a two-turn conversation; they differ between lanes."""
    return [f"Tell me about the colour {name}.", "What did I ask about?"]


def test_two_lanes_through_the_lane_helper(client):
    alone = {}
    for name in ("red", "blue"):
        with client.responses.connect() as connection:
            first, second = lane_dialogue(name)
            start = ask(connection, first)
            alone[name] = ask(connection, second, previous_response_id=start.id).output_text
    assert alone["red"] != alone["blue"]
    with client.responses.connect() as connection, ResponsesWebSocketSession(connection, limits=LIMITS) as session:
        lanes = {name: session.lane(name) for name in alone}
        answers = {}
        for turn in range(2):
            for name, lane in lanes.items():
                fields = {"previous_response_id": answers[name].id} if turn else {}
                lane.send({"type": "response.create", "input": lane_dialogue(name)[turn], **GREEDY, **fields})
            for name, lane in lanes.items():
                answers[name] = lane.get_final_response(timeout=PATIENCE_S)
        assert {name: answer.output_text for name, answer in answers.items()} == alone
        session.default.send({"type": "response.create", "input": "Hello.", **GREEDY})
        assert session.default.get_final_response(timeout=PATIENCE_S).output_text


def test_lane_events_are_ordered_and_named(client):
    with client.responses.connect() as connection, ResponsesWebSocketSession(connection, limits=LIMITS) as session:
        lane = session.lane("a.b-c_1")
        lane.send({"type": "response.create", "input": "Count to five.", **GREEDY})
        events, accumulator = [], ResponsesWebSocketAccumulator()
        while not events or events[-1].type not in TERMINAL:
            events.append(lane.recv(timeout=PATIENCE_S))
            accumulator.add_event(events[-1])
        check_order(events, stream_id="a.b-c_1")
        assert accumulator.snapshot().output_text == events[-1].response.output_text


def test_error_on_one_lane_does_not_affect_another(client):
    with client.responses.connect() as connection, ResponsesWebSocketSession(connection, limits=LIMITS) as session:
        good, bad = session.lane("good"), session.lane("bad")
        good.send({"type": "response.create", "input": "Tell me a story.", "temperature": 0, "max_output_tokens": 80})
        bad.send({"type": "response.create", "input": "x", "temperature": 9})
        with pytest.raises(ResponsesWebSocketError) as error:
            bad.get_final_response(timeout=PATIENCE_S)
        assert error.value.event.error.param == "temperature"
        assert error.value.event.stream_id == "bad"
        assert good.get_final_response(timeout=PATIENCE_S).output_text
        bad.send({"type": "response.create", "input": "Hello.", **GREEDY})
        assert bad.get_final_response(timeout=PATIENCE_S).output_text


def test_a_fork_on_another_lane_keeps_both_branches(client):
    with client.responses.connect() as connection, ResponsesWebSocketSession(connection, limits=LIMITS) as session:
        trunk, branch = session.lane("trunk"), session.lane("branch")
        trunk.send({"type": "response.create", "input": "The secret word is banana.", **GREEDY})
        root = trunk.get_final_response(timeout=PATIENCE_S)
        ask_for = {"type": "response.create", "previous_response_id": root.id, **GREEDY}
        trunk.send({**ask_for, "input": "What is the secret word?"})
        branch.send({**ask_for, "input": "What is the secret word?"})
        one, two = trunk.get_final_response(timeout=PATIENCE_S), branch.get_final_response(timeout=PATIENCE_S)
        assert one.id != two.id
        assert one.output_text == two.output_text and "banana" in one.output_text.lower()


def test_cancel_ends_the_answer_and_keeps_the_conversation(connection):
    fields = {"temperature": 0, "max_output_tokens": 30_000, "ignore_eos": True}
    connection.send({"type": "response.create", "input": "Tell me a very long story about the sea.", **fields})
    events = []
    for event in connection:
        events.append(event)
        if event.type == "response.output_text.delta" and len(events) > 8:
            break
    connection.send({"type": "response.cancel"})
    events += read_answer(connection)
    last = events[-1]
    assert last.type == "response.incomplete"
    assert last.response.status == "cancelled"
    assert last.response.output[0].status == "incomplete"
    text = "".join(event.delta for event in events if event.type == "response.output_text.delta")
    assert last.response.output_text == text != ""
    assert last.response.usage.output_tokens < 30_000
    # A late cancel is a no-op; the conversation continues from the partial answer.
    connection.send({"type": "response.cancel", "response_id": last.response.id})
    connection.send({"type": "response.cancel"})
    after = ask(connection, "Thank you, stop.", previous_response_id=last.response.id)
    assert after.usage.input_tokens_details.cached_tokens >= last.response.usage.total_tokens - 2


def test_steering_is_refused_and_the_answer_continues(connection):
    connection.response.create(input="Tell me a story.", temperature=0, max_output_tokens=60)
    created = connection.recv()
    connection.response.steer(previous_response_id=created.response.id, input="Shorter!")
    events = read_answer(connection)
    refusals = [event for event in events if event.type == "response.steer.failed"]
    assert len(refusals) == 1
    assert refusals[0].error.code == "steering_not_supported"
    assert refusals[0].steer.previous_response_id == created.response.id
    assert refusals[0].steer.input is not None
    assert completed(events).output_text


BAD_FIELDS = [
    ({"temperature": 2.5}, "temperature"),
    ({"temperature": -1}, "temperature"),
    ({"temperature": "hot"}, "temperature"),
    ({"top_p": 0}, "top_p"),
    ({"top_p": 1.5}, "top_p"),
    ({"top_k": -2}, "top_k"),
    ({"top_k": 1.5}, "top_k"),
    ({"min_p": 2}, "min_p"),
    ({"repetition_penalty": 0}, "repetition_penalty"),
    ({"presence_penalty": 3}, "presence_penalty"),
    ({"frequency_penalty": -3}, "frequency_penalty"),
    ({"logit_bias": {"0": 101}}, "logit_bias"),
    ({"logit_bias": {"99999999": 1}}, "logit_bias"),
    ({"logit_bias": {"x": 1}}, "logit_bias"),
    ({"logit_bias": [1]}, "logit_bias"),
    ({"top_logprobs": 21}, "top_logprobs"),
    ({"max_output_tokens": 0}, "max_output_tokens"),
    ({"max_output_tokens": -5}, "max_output_tokens"),
    ({"min_tokens": -1}, "min_tokens"),
    ({"seed": "x"}, "seed"),
    ({"stop": 5}, "stop"),
    ({"stop": ["a"] * 17}, "stop"),
    ({"stop": "x" * 257}, "stop"),
    ({"input": 5}, "input"),
    ({"input": [{"role": "wizard", "content": "x"}]}, None),
    ({"input": [{"role": "user", "content": [{"type": "input_image", "image_url": "x"}]}]}, None),
    ({"tools": [{"type": "function"}]}, "tools"),
    ({"text": {"format": {"type": "json_schema"}}}, None),
    ({"background": True}, "background"),
    ({"guided_regex": "a+"}, "guided_regex"),
    ({"metadata": 5}, "metadata"),
    ({"model": "no-such-model"}, "model"),
    ({"store": "yes"}, "store"),
]


@pytest.mark.parametrize("fields, param", BAD_FIELDS, ids=lambda value: str(value)[:40])
def test_bad_parameter_is_a_typed_error_and_keeps_the_socket(connection, fields, param):
    connection.send({"type": "response.create", "input": "Hello.", **GREEDY, **fields})
    event = connection.recv()
    assert event.type == "error", event
    assert event.status in {400, 404}
    assert event.error.type == "invalid_request_error"
    assert event.error.code and event.error.message
    if param:
        assert (event.error.param or "").split(".")[0].split("[")[0] == param
    assert ask(connection, "Hello.", max_output_tokens=4).output_text


IGNORED = {
    "colour": "red", "reasoning": {"effort": "high"}, "metadata": {"k": 5}, "client_metadata": {"a": "b"},
    "tools": [{"type": "web_search"}],
}


def test_ignored_fields_are_reported(connection):
    response = completed(send(connection, input="Hello.", **IGNORED))
    ignored = response.model_extra["ringside"]["ignored"]
    assert ignored == ["colour", "metadata", "client_metadata", "tools[0].web_search", "reasoning.effort"]


HARMLESS = {
    "tools": [], "tool_choice": "auto", "text": {"format": {"type": "text"}}, "background": False, "service_tier": "auto",
    "reasoning": None, "include": [], "truncation": "disabled", "parallel_tool_calls": True, "user": "u", "stream": True,
    "metadata": {"a": "b"}, "instructions": None, "previous_response_id": None, "conversation": None, "top_p": None,
    "prompt_cache_key": "k", "safety_identifier": "s", "max_tool_calls": None, "stop": None, "seed": None,
}


def test_harmless_values_of_known_fields_are_accepted(connection):
    response = completed(send(connection, input="Hello.", **HARMLESS))
    assert response.metadata == {"a": "b"}


@pytest.mark.parametrize("bad", ["resp_doesnotexist", "", "conv_x", "resp_" + "x" * 5000, "../../etc/passwd", "résp_"])
def test_an_unknown_previous_response_is_a_typed_error(connection, bad):
    connection.response.create(input="Hello.", previous_response_id=bad, **GREEDY)
    event = connection.recv()
    assert event.type == "error" and event.error.param == "previous_response_id", event
    if bad == "resp_doesnotexist":
        assert event.status == 400 and event.error.code == "previous_response_not_found"
    assert ask(connection, "Hello.", max_output_tokens=4).output_text


def test_unknown_or_conflicting_conversation_is_a_typed_error(client, connection):
    connection.response.create(input="Hello.", conversation="conv_doesnotexist", **GREEDY)
    event = connection.recv()
    assert event.type == "error" and event.error.param == "conversation", event
    conversation = client.conversations.create()
    first = ask(connection, "Hello.", conversation=conversation.id)
    connection.response.create(
        input="Hello.", conversation=conversation.id, previous_response_id=first.id, **GREEDY
    )
    event = connection.recv()
    assert event.type == "error" and event.status == 400, event
    assert ask(connection, "Hello.", max_output_tokens=4).output_text


@pytest.mark.parametrize("bad", ["", "a b", "x" * 257, "é", 5])
def test_a_bad_stream_id_is_a_typed_error(connection, bad):
    connection.send({"type": "response.create", "input": "Hello.", "stream_id": bad, **GREEDY})
    event = connection.recv()
    assert event.type == "error" and event.error.code == "invalid_stream_id", event
    assert ask(connection, "Hello.", max_output_tokens=4).output_text


def test_the_33rd_lane_is_refused(connection):
    for i in range(32):
        connection.send({"type": "response.create", "input": "Hi", "stream_id": f"lane{i}", "temperature": 0,
                         "max_output_tokens": 1})
    finished = 0
    while finished < 32:
        event = connection.recv()
        assert event.type != "error", event
        finished += event.type in TERMINAL
    connection.send({"type": "response.create", "input": "Hi", "stream_id": "lane32", **GREEDY})
    event = connection.recv()
    assert event.type == "error" and event.error.code == "websocket_stream_limit_reached", event
    assert ask(connection, "Hello.", stream_id="lane0", max_output_tokens=4).output_text


def test_lane_answers_in_order(connection):
    for i in range(3):
        connection.response.create(input=f"Say {i}.", temperature=0, max_output_tokens=8)
    answers = [read_answer(connection) for _ in range(3)]
    for events in answers:
        check_order(events)


def test_eight_concurrent_sockets_answer_as_alone(client):
    prompts = [f"Tell me a fact about the number {n}." for n in range(8)]

    def answer(prompt):
        with client.responses.connect() as connection:
            first = ask(connection, prompt)
            return first.output_text, ask(connection, "Tell me more.", previous_response_id=first.id).output_text

    alone = [answer(prompt) for prompt in prompts]
    together, threads = [None] * 8, []
    for index, prompt in enumerate(prompts):
        threads.append(threading.Thread(target=lambda i=index, p=prompt: together.__setitem__(i, answer(p))))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert together == alone


def test_sampling_fields_have_the_chat_names(connection):
    base = {"input": "Write a sentence.", "temperature": 1.5, "max_output_tokens": 16}
    texts = [completed(send(connection, **base, seed=seed)).output_text for seed in (7, 7, 8)]
    assert texts[0] == texts[1] != texts[2]
    greedy = completed(send(connection, input="Write a sentence.", temperature=0, max_output_tokens=16)).output_text
    assert completed(send(connection, **base, seed=1, top_k=1)).output_text == greedy


def test_a_stop_string_ends_the_answer_and_is_not_shown(connection):
    whole = completed(send(connection, input="Count from one to nine.", max_output_tokens=40)).output_text
    stop = whole[7:10]
    events = send(connection, input="Count from one to nine.", max_output_tokens=40, stop=[stop])
    assert events[-1].type == "response.completed"
    assert completed(events).output_text == whole[: whole.index(stop)]


def test_logprobs_match_the_tokens(connection):
    events = send(connection, input="Say hello.", top_logprobs=3, include=["message.output_text.logprobs"])
    entries = [entry for event in events if event.type == "response.output_text.delta" for entry in event.logprobs]
    text = completed(events).output_text
    spelt = "".join(entry.token for entry in entries)  # includes the stop token, if there was one
    assert spelt.removesuffix("<|im_end|>") == text
    assert len(entries) == completed(events).usage.output_tokens
    for entry in entries:
        assert len(entry.top_logprobs) == 3
        assert entry.top_logprobs[0].token == entry.token, "greedy takes the best"
        assert entry.logprob <= 0 and entry.logprob == entry.top_logprobs[0].logprob
    final = completed(events).output[0].content[0].logprobs
    assert [bytes(entry.bytes).decode() for entry in final] == [entry.token for entry in final]


def test_max_output_tokens_gives_an_incomplete_answer(connection):
    events = send(connection, input="Tell me a long story.", max_output_tokens=5)
    assert events[-1].type == "response.incomplete"
    response = completed(events)
    assert response.incomplete_details.reason == "max_output_tokens"
    assert response.usage.output_tokens == 5


def test_binary_frames_are_accepted(connection):
    connection.send_raw(b'{"type":"response.create","input":"Hello.","temperature":0,"max_output_tokens":4}')
    check_order(read_answer(connection))


def test_store_false_is_visible_to_its_connection_only(client, connection):
    first = ask(connection, "Hello.", store=False)
    assert ask(connection, "Again.", previous_response_id=first.id, store=False).output_text
    fresh = ask(connection, "Hello.", store=False)
    with client.responses.connect() as other:
        other.response.create(input="Mine?", previous_response_id=fresh.id, **GREEDY)
        event = other.recv()
        assert event.type == "error" and event.error.code == "previous_response_not_found", event
