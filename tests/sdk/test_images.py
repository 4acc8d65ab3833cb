"""Images through the stock SDKs: answers of a tiny random model with a vision tower, or of RINGSIDE_VISION_MODEL."""

import base64
import http.client
import json
import os
import sys
from pathlib import Path

import anthropic
import ollama
import openai
import pytest
from server import Server

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "system"))
import tiny_vision  # noqa: E402

IMAGES = Path(__file__).resolve().parents[1] / "decoder/images"
FILE = (IMAGES / "rgb.png").read_bytes()
BASE64 = base64.b64encode(FILE).decode()
URL = "data:image/png;base64," + BASE64
QUESTION = "What is on this image?"
LIMIT = 32 << 20  # of a request, unless --max-request-mb gives another


@pytest.fixture(scope="module")
def vision(tmp_path_factory):
    model = os.environ.get("RINGSIDE_VISION_MODEL")
    if not model:
        model = tiny_vision.make(tmp_path_factory.mktemp("model") / "tiny")
    server = Server("--store-path", str(tmp_path_factory.mktemp("store")), model=model)
    yield server
    server.stop()


@pytest.fixture
def sees(vision):
    with openai.OpenAI(base_url=vision.url + "/v1", api_key="anything", max_retries=0) as client:
        yield client
    assert vision.alive()


def question(url=URL):
    return {"role": "user", "content": [{"type": "input_image", "image_url": url, "detail": "auto"},
                                        {"type": "input_text", "text": QUESTION}]}


def chat_question(url=URL):
    return {"role": "user", "content": [{"type": "image_url", "image_url": {"url": url}}, {"type": "text", "text": QUESTION}]}


def test_a_model_without_images_refuses_them(client):
    model = client.models.list().data[0].id
    with pytest.raises(openai.BadRequestError) as refused:
        client.chat.completions.create(model=model, messages=[chat_question()], max_tokens=4)
    assert (refused.value.code, refused.value.param) == ("unsupported_value", "messages[0].content[0].type")
    with pytest.raises(openai.BadRequestError) as refused:
        client.responses.create(model=model, input=[question()], max_output_tokens=16)
    assert (refused.value.code, refused.value.param) == ("unsupported_value", "input[0].content[0].type")


def test_every_face_reads_the_same_image(vision, sees):
    model = sees.models.list().data[0].id
    chat = sees.chat.completions.create(model=model, messages=[chat_question()], max_tokens=8, temperature=0)
    anthropic_client = anthropic.Anthropic(base_url=vision.url, api_key="anything")
    source = {"type": "base64", "media_type": "image/png", "data": BASE64}
    message = anthropic_client.messages.create(
        model=model, max_tokens=8, extra_body={"temperature": 0},
        messages=[{"role": "user", "content": [{"type": "image", "source": source}, {"type": "text", "text": QUESTION}]}])
    local = ollama.Client(host=vision.url).chat(
        model=model, messages=[{"role": "user", "content": QUESTION, "images": [BASE64]}], options={"num_predict": 8, "temperature": 0})
    response = sees.responses.create(model=model, input=[question()], max_output_tokens=16, temperature=0)
    text = chat.choices[0].message.content
    assert text and message.content[0].text == text and local.message.content == text
    assert response.output_text.startswith(text)


def test_ten_turns_about_an_image_compute_it_once(sees):
    model = sees.models.list().data[0].id
    asked = question()
    asked["content"].insert(0, {"type": "input_text", "text": "No other test has asked this: "})
    response = sees.responses.create(model=model, input=[asked], max_output_tokens=16, temperature=0)
    assert response.usage.input_tokens_details.cached_tokens < 10, "its image is not known"
    for turn in range(2, 11):
        known = response.usage.input_tokens
        response = sees.responses.create(model=model, input=f"And {turn}?", previous_response_id=response.id, max_output_tokens=16)
        assert response.usage.input_tokens_details.cached_tokens >= known, turn
    items = sees.responses.input_items.list(response.id, order="asc").data
    assert items[0].content[1].type == "input_image" and items[0].content[1].image_url == URL


def test_faults_of_images_are_typed(sees):
    model = sees.models.list().data[0].id
    cut = "data:image/png;base64," + base64.b64encode(FILE[:60]).decode()
    for url, code in (("https://example.com/a.png", "image_url_not_allowed"), ("data:image/png;base64,?", "invalid_value"),
                      (cut, "invalid_value"), ("data:image/gif;base64,R0lGODlh", "invalid_value")):
        with pytest.raises(openai.BadRequestError) as refused:
            sees.chat.completions.create(model=model, messages=[chat_question(url)], max_tokens=4)
        assert (refused.value.code, refused.value.param) == (code, "messages[0].content[0].image_url.url")


@pytest.fixture(scope="module")
def large():
    """A picture of 12 MB, in base64."""
    return base64.b64encode(tiny_vision.noise(2000)).decode()


def announce(server, path, size):
    """Status and error code of a request that has only been announced."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    connection.putrequest("POST", path)
    connection.putheader("Content-Length", str(size))
    connection.endheaders()
    response = connection.getresponse()
    return response.status, json.loads(response.read())["error"]["code"]


def test_every_face_reads_a_picture_of_12_mb(vision, sees, large):
    model = sees.models.list().data[0].id
    url = "data:image/png;base64," + large
    chat = sees.chat.completions.create(model=model, messages=[chat_question(url)], max_tokens=8, temperature=0)
    text = chat.choices[0].message.content
    source = {"type": "base64", "media_type": "image/png", "data": large}
    message = anthropic.Anthropic(base_url=vision.url, api_key="anything").messages.create(
        model=model, max_tokens=8, extra_body={"temperature": 0},
        messages=[{"role": "user", "content": [{"type": "image", "source": source}, {"type": "text", "text": QUESTION}]}])
    assert text and message.content[0].text == text
    local = ollama.Client(host=vision.url).chat(
        model=model, messages=[{"role": "user", "content": QUESTION, "images": [large]}], options={"num_predict": 8, "temperature": 0})
    assert local.message.content == text
    response = sees.responses.create(model=model, input=[question(url)], max_output_tokens=16, temperature=0)
    assert response.output_text.startswith(text)
    with sees.responses.connect() as connection:
        connection.response.create(model=model, input=[question(url)], max_output_tokens=16, temperature=0)
        done = next(event for event in connection if event.type in ("response.completed", "response.incomplete", "error"))
        assert done.response.output_text.startswith(text)


def test_realtime_reads_a_picture_of_12_mb(sees, large):
    url = "data:image/png;base64," + large
    with sees.realtime.connect(model=sees.models.list().data[0].id, websocket_connection_options={"max_size": None}) as connection:
        part = {"type": "input_image", "image_url": url}
        connection.conversation.item.create(item={"type": "message", "role": "user", "content": [part]})
        events = {event.type: event for event in (connection.recv() for _ in range(3))}
        assert events["conversation.item.done"].item.content[0].image_url == url


def test_a_request_above_the_limit_is_refused_before_it_is_sent(vision, client, server):
    assert announce(vision, "/v1/chat/completions", LIMIT + 1) == (413, "request_too_large")
    assert announce(server, "/v1/chat/completions", (4 << 20) + 1) == (413, "request_too_large")  # it reads no images


def test_text_has_the_limit_of_a_server_without_images(vision, sees, large):
    model = sees.models.list().data[0].id
    text = {"role": "user", "content": "x" * (4 << 20)}
    for messages in ([text], [text, chat_question("data:image/png;base64," + large)]):
        with pytest.raises(openai.APIStatusError) as refused:
            sees.chat.completions.create(model=model, messages=messages, max_tokens=4)
        assert (refused.value.status_code, refused.value.code) == (413, "request_too_large")
    with sees.responses.connect() as connection:
        connection.response.create(model=model, input="x" * (4 << 20))
        error = connection.recv()
        assert (error.type, error.error.code) == ("error", "request_too_large")
        connection.response.create(model=model, input="hello", max_output_tokens=16)  # the connection remains usable
        assert connection.recv().type == "response.created"
