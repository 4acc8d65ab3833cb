"""The stock asynchronous OpenAI SDK in the Responses WebSocket mode."""

import asyncio

import openai
import pytest
from openai.lib.responses_websocket import AsyncResponsesWebSocketSession, ResponsesWebSocketLimits
from turns import GREEDY, check_order, completed, events_equal, read_answer_async

LIMITS = ResponsesWebSocketLimits(
    max_lanes=8, max_events_per_lane=2048, max_events=8192, max_bytes_per_lane=1 << 24, max_bytes=1 << 25
)


@pytest.fixture
def run(server):
    """Runs a coroutine function with an asynchronous client."""

    def run(scenario):
        async def main():
            async with openai.AsyncOpenAI(base_url=server.url + "/v1", api_key="anything", max_retries=0) as client:
                return await asyncio.wait_for(scenario(client), 300)

        result = asyncio.run(main())
        assert server.alive()
        return result

    return run


async def collect(stream):
    return [event async for event in stream]


async def ask(connection, text, **fields):
    await connection.response.create(input=text, **{**GREEDY, **fields})
    return completed(await read_answer_async(connection))


async def talk_alone(client, name):
    async with client.responses.connect() as connection:
        first = await ask(connection, f"Tell me about the colour {name}.")
        return (await ask(connection, "What did I ask about?", previous_response_id=first.id)).output_text


def test_turns_by_previous_response_id(run):
    async def scenario(client):
        async with client.responses.connect() as connection:
            await connection.response.create(input="The secret word is banana.", **GREEDY)
            events = await read_answer_async(connection)
            check_order(events)
            first = completed(events)
            second = await ask(connection, "What is the secret word?", previous_response_id=first.id)
            assert "banana" in second.output_text.lower()
            assert second.usage.input_tokens_details.cached_tokens >= first.usage.total_tokens - 2

    run(scenario)


def test_response_is_streamed_during_and_after_its_turn(run):
    async def scenario(client):
        async with client.responses.connect() as connection:
            await connection.response.create(input="Count up.", temperature=0, max_output_tokens=48)
            live = [await connection.recv() for _ in range(6)]
            id = live[0].response.id
            stream = await client.responses.retrieve(id, stream=True, starting_after=live[-1].sequence_number)
            running, rest = await asyncio.gather(collect(stream), read_answer_async(connection))
            live += rest
            check_order(live)
            assert events_equal(running, live[6:])
            again = await client.responses.retrieve(id, stream=True, starting_after=7)
            assert events_equal(await collect(again), live[8:])

    run(scenario)


def test_turns_by_conversation(run):
    async def scenario(client):
        conversation = await client.conversations.create()
        async with client.responses.connect() as connection:
            await ask(connection, "My dog is called Rex.", conversation=conversation.id)
        async with client.responses.connect() as connection:
            answer = await ask(connection, "What is my dog called?", conversation=conversation.id)
        assert "Rex" in answer.output_text
        roles = [item.role async for item in client.conversations.items.list(conversation.id, order="asc")]
        assert roles == ["user", "assistant", "user", "assistant"]

    run(scenario)


def test_two_lanes_through_the_lane_helper(run):
    async def scenario(client):
        async with client.responses.connect() as connection:
            async with AsyncResponsesWebSocketSession(connection, limits=LIMITS) as session:

                async def talk(name):
                    lane, previous = session.lane(name), None
                    for text in (f"Tell me about the colour {name}.", "What did I ask about?"):
                        await lane.send({"type": "response.create", "input": text, "previous_response_id": previous,
                                         **GREEDY})
                        answer = await lane.get_final_response()
                        previous = answer.id
                    return answer.output_text

                together = await asyncio.gather(talk("red"), talk("blue"))
                assert together == [await talk_alone(client, name) for name in ("red", "blue")]
                assert together[0] != together[1]

    run(scenario)


def test_warm_up_cancel_and_steer(run):
    async def scenario(client):
        async with client.responses.connect() as connection:
            await connection.response.create(input="A story. " * 30, generate=False)
            warm = completed(await read_answer_async(connection))
            assert warm.output == []
            await connection.send({"type": "response.create", "input": "Go on for ever.", "temperature": 0,
                                   "previous_response_id": warm.id, "max_output_tokens": 30_000, "ignore_eos": True})
            created = await connection.recv()
            await connection.response.steer(previous_response_id=created.response.id, input="Stop!")
            steer = None
            async for event in connection:
                if event.type == "response.steer.failed":
                    steer = event
                if steer is not None and event.type == "response.output_text.delta":
                    break
            assert steer.error.code == "steering_not_supported"
            await connection.send({"type": "response.cancel"})
            ended = (await read_answer_async(connection))[-1]
            assert ended.type == "response.incomplete" and ended.response.status == "cancelled"
            assert (await ask(connection, "Hello.", previous_response_id=ended.response.id)).output_text

    run(scenario)


def test_bad_parameters_and_ids_keep_the_socket_open(run):
    async def scenario(client):
        async with client.responses.connect() as connection:
            for fields, param in (
                ({"temperature": 9}, "temperature"),
                ({"previous_response_id": "resp_none"}, "previous_response_id"),
                ({"conversation": "conv_none"}, "conversation"),
                ({"max_output_tokens": 0}, "max_output_tokens"),
            ):
                await connection.response.create(input="Hello.", **{**GREEDY, **fields})
                event = await connection.recv()
                assert event.type == "error" and event.error.param == param, event
                assert (await ask(connection, "Hello.", max_output_tokens=4)).output_text

    run(scenario)


def test_eight_concurrent_sockets_answer_as_alone(run):
    async def scenario(client):
        async def answer(number):
            async with client.responses.connect() as connection:
                return (await ask(connection, f"Tell me a fact about the number {number}.")).output_text

        alone = [await answer(number) for number in range(8)]
        assert await asyncio.gather(*(answer(number) for number in range(8))) == alone

    run(scenario)
