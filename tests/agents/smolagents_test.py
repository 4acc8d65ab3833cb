"""smolagents: an agent that calls tools and one that writes code.

    scripts/client_tests smolagents
"""

import pytest
import scripted_model
from smolagents import CodeAgent, OpenAIServerModel, ToolCallingAgent


def model_of(server):
    return OpenAIServerModel(model_id="gpt-5", api_base=f"http://127.0.0.1:{server.port}/v1", api_key="any")


@pytest.mark.parametrize("stream", [False, True])
def test_tools(start, stream):
    server = start(scripted_model.calling("final_answer", '{"answer": "42"}'))
    assert ToolCallingAgent(tools=[], model=model_of(server), stream_outputs=stream, max_steps=2).run("Which number?") == "42"


def test_code(start):
    server = start(scripted_model.saying("Thought: I know it.\n<code>\nfinal_answer(42)\n</code>"))
    assert CodeAgent(tools=[], model=model_of(server), max_steps=2).run("Which number?") == 42
